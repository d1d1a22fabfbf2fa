//! The example `ranks`, run by launchers.

use crate::driver::process::{example, run_child};
use crate::harness::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The example, where it is built.
fn ranks(test: &str) -> Option<PathBuf> {
    let built = example("ranks");
    if built.is_none() {
        skip(test, "the example ranks is not built; `cargo test` builds it");
    }
    built
}

/// Which device each process said it took, in the order of their ranks.
fn taken(text: &str, size: u32) -> Vec<Option<u32>> {
    let of_rank = |rank: u32| {
        let of = format!("because it is local rank {rank} of {size} processes");
        let line = text.lines().find(|line| line.contains(&of))?;
        let (_, after) = line.split_once("this process takes device ")?;
        after.split_once(" of ")?.0.parse().ok()
    };
    (0..size).map(of_rank).collect()
}

/// Four processes of this launcher, on 1, 2 and 4 devices.
fn four_processes_of(test: &str, mpirun: &str, package: &str) {
    if Command::new(mpirun).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return skip(test, &format!("there is no {mpirun}; Debian's package {package} has one"));
    }
    let Some(ranks) = ranks(test) else { return };
    for devices in [1u32, 2, 4] {
        let mut command = Command::new(mpirun);
        // Open MPI refuses root, and more processes than cores, unless it is told; MPICH ignores these variables.
        command.envs([
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
        ]);
        command.args(["-n", "4"]).arg(&ranks).env("CUSTACK_DRIVER", "sim");
        let (status, text) = run_child(command.env("CUSTACK_SIM_DEVICES", devices.to_string()));
        assert!(status.success(), "{text}");
        assert!(text.contains("All 100000 numbers are right, from 4 processes."), "{text}");
        assert_eq!(taken(&text, 4), [0, 1, 2, 3].map(|rank| Some(rank % devices)), "{text}");
    }
}

#[test]
fn four_processes_of_mpirun_put_their_parts_together() {
    four_processes_of("four_processes_of_mpirun_put_their_parts_together", "mpirun", "openmpi-bin");
}

#[test]
fn four_processes_of_mpichs_mpirun_put_their_parts_together() {
    four_processes_of("four_processes_of_mpichs_mpirun_put_their_parts_together", "mpirun.mpich", "mpich");
}

/// The example, without the variables of a launcher that may have started the tests.
fn unlaunched(ranks: &Path) -> Command {
    let mut command = Command::new(ranks);
    let launchers =
        ["CUSTACK_LOCAL", "LOCAL_", "OMPI_", "MPI_LOCAL", "PMI_", "FLUX_", "SLURM_", "TORCHELASTIC_"];
    for (name, _) in std::env::vars_os() {
        if launchers.iter().any(|launcher| name.to_string_lossy().starts_with(launcher)) {
            command.env_remove(name);
        }
    }
    command.env("CUSTACK_DRIVER", "sim").env("CUSTACK_SIM_DEVICES", "2");
    command
}

/// Starts them as a launcher does: children of one process, each with its variables.
fn launched(ranks: &Path, size: u32, variables: impl Fn(u32) -> Vec<(&'static str, String)>) -> String {
    let start = |rank| {
        let mut command = unlaunched(ranks);
        command.envs(variables(rank)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let processes: Vec<_> = (0..size).map(start).collect();
    let finish = |process: std::process::Child| {
        let output = process.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{text:?}");
        text.concat()
    };
    processes.into_iter().map(finish).collect()
}

#[test]
fn processes_with_the_variables_of_each_launcher_put_their_parts_together() {
    let test = "processes_with_the_variables_of_each_launcher_put_their_parts_together";
    let Some(ranks) = ranks(test) else { return };
    type Variables = fn(u32) -> Vec<(&'static str, String)>;
    let launchers: [(&str, Variables); 4] = [
        ("Slurm", |rank| {
            let list = ("SLURM_STEP_TASKS_PER_NODE", "3".to_owned());
            vec![("SLURM_LOCALID", rank.to_string()), ("SLURM_NODEID", "0".to_owned()), list]
        }),
        ("MPICH or Intel MPI", |rank| {
            vec![("MPI_LOCALRANKID", rank.to_string()), ("MPI_LOCALNRANKS", "3".to_owned())]
        }),
        ("torchrun", |rank| {
            let id = ("TORCHELASTIC_RUN_ID", "none".to_owned());
            vec![("LOCAL_RANK", rank.to_string()), ("LOCAL_WORLD_SIZE", "3".to_owned()), id]
        }),
        ("flux", |rank| {
            let nodes = ("FLUX_JOB_NNODES", "1".to_owned());
            vec![("FLUX_TASK_LOCAL_ID", rank.to_string()), ("FLUX_JOB_SIZE", "3".to_owned()), nodes]
        }),
    ];
    for (launcher, variables) in launchers {
        let text = launched(&ranks, 3, variables);
        assert!(text.contains("All 100000 numbers are right, from 3 processes."), "{text}");
        assert_eq!(taken(&text, 3), [Some(0), Some(1), Some(0)], "{text}");
        assert_eq!(text.matches(&format!("of {launcher} says")).count(), 3, "{text}");
    }
}

#[test]
fn a_wrong_variable_ends_the_example_with_its_name() {
    let Some(ranks) = ranks("a_wrong_variable_ends_the_example_with_its_name") else { return };
    let (status, text) = run_child(unlaunched(&ranks).env("CUSTACK_LOCAL_RANK", "first"));
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("CUDA_ERROR_INVALID_VALUE, 1"), "{text}");
    assert!(
        text.contains("CUSTACK_LOCAL_RANK holds \"first\", which is not a number of a process"),
        "{text}"
    );
}

/// A folder of the test's own that is not there yet.
fn unused_folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("custack-test-{name}-{}", std::process::id()))
}

/// One of two processes, whose job meets in this folder.
fn one_of_two(ranks: &Path, rank: u32, folder: &Path) -> Command {
    let mut command = unlaunched(ranks);
    command.env("CUSTACK_LOCAL_RANK", rank.to_string()).env("CUSTACK_LOCAL_SIZE", "2").arg(folder);
    command
}

#[test]
fn what_an_earlier_job_has_left_is_not_read() {
    let Some(ranks) = ranks("what_an_earlier_job_has_left_is_not_read") else { return };
    let folder = unused_folder("left");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("part-1"), [0; 4 * 50_000]).unwrap();
    let (status, text) = run_child(&mut one_of_two(&ranks, 0, &folder));
    let is_left = folder.join("part-1").exists();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("a job that ended early has left it"), "{text}");
    assert!(is_left, "another job's folder was removed");
}

#[cfg(unix)]
#[test]
fn a_folder_that_other_users_may_write_in_is_not_taken() {
    use std::os::unix::fs::PermissionsExt;
    let Some(ranks) = ranks("a_folder_that_other_users_may_write_in_is_not_taken") else { return };
    let folder = unused_folder("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (status, text) = run_child(&mut one_of_two(&ranks, 1, &folder));
    let is_empty = std::fs::read_dir(&folder).unwrap().next().is_none();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("is not this user's own folder"), "{text}");
    assert!(is_empty, "a part was written there");
}
