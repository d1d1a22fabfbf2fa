//! `LocalRank` and `Device::for_this_process`.

use crate::harness::run;
use crate::report::reported;
use custack::device::{Device, Launcher, LocalRank, LocalRankError, ProcessDevice};
use std::ffi::OsString;

fn of(variables: &[(&str, &str)]) -> Result<LocalRank, LocalRankError> {
    let find = |name: &str| variables.iter().find(|(given, _)| *given == name);
    LocalRank::from_variables(|name| find(name).map(|(_, value)| OsString::from(value)))
}

/// The rank, the size and the launcher.
fn told(variables: &[(&str, &str)]) -> (u32, Option<u32>, Option<Launcher>) {
    let rank = of(variables).unwrap();
    (rank.rank(), rank.size(), rank.launcher())
}

#[test]
fn each_launcher_is_known_by_its_variables() {
    let cases: [(&[(&str, &str)], _, _); 7] = [
        (&[("CUSTACK_LOCAL_RANK", "3"), ("CUSTACK_LOCAL_SIZE", "4")], Some(4), Launcher::Explicit),
        (
            &[
                ("LOCAL_RANK", "3"),
                ("LOCAL_WORLD_SIZE", "8"),
                ("TORCHELASTIC_RUN_ID", "none"),
                ("RANK", "11"),
            ],
            Some(8),
            Launcher::Torchrun,
        ),
        (
            &[
                ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
                ("OMPI_COMM_WORLD_RANK", "7"),
                ("PMIX_RANK", "7"),
            ],
            Some(4),
            Launcher::OpenMpi,
        ),
        (
            &[("MPI_LOCALRANKID", "3"), ("MPI_LOCALNRANKS", "4"), ("PMI_RANK", "7"), ("PMI_SIZE", "8")],
            Some(4),
            Launcher::Mpich,
        ),
        (&[("PMI_LOCAL_RANK", "3"), ("PMI_LOCAL_SIZE", "4"), ("PMI_RANK", "7")], Some(4), Launcher::Pmi),
        (
            &[("FLUX_TASK_LOCAL_ID", "3"), ("FLUX_JOB_SIZE", "4"), ("FLUX_JOB_NNODES", "1")],
            Some(4),
            Launcher::Flux,
        ),
        (
            &[
                ("SLURM_LOCALID", "3"),
                ("SLURM_PROCID", "7"),
                ("SLURM_NODEID", "1"),
                ("SLURM_STEP_TASKS_PER_NODE", "4(x2)"),
            ],
            Some(4),
            Launcher::Slurm,
        ),
    ];
    for (variables, size, launcher) in cases {
        assert_eq!(told(variables), (3, size, Some(launcher)), "{variables:?}");
        let rank = of(variables).unwrap();
        let variable = rank.variable().unwrap();
        assert_eq!(variable, variables[0].0);
        let whose = if launcher == Launcher::Explicit { String::new() } else { format!(" of {launcher}") };
        let said = format!("local rank 3 of {} processes, as {variable}{whose} says", size.unwrap());
        assert_eq!(rank.to_string(), said);
    }
}

#[test]
fn the_number_among_all_machines_is_not_taken_for_the_local_one() {
    let of_the_job = [
        ("RANK", "5"),
        ("PMI_RANK", "5"),
        ("PMIX_RANK", "5"),
        ("SLURM_PROCID", "5"),
        ("FLUX_TASK_RANK", "5"),
    ];
    assert_eq!(told(&of_the_job), (0, Some(1), None));
    assert_eq!(
        of(&of_the_job).unwrap().to_string(),
        "local rank 0 of one process, as no launcher's variable is set"
    );
}

#[test]
fn the_inner_launcher_is_taken_and_the_outer_one_told() {
    let slurm = [("SLURM_LOCALID", "0"), ("SLURM_STEP_TASKS_PER_NODE", "1")];
    let open_mpi = [("OMPI_COMM_WORLD_LOCAL_RANK", "2"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
    let torchrun = [("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", "7")];
    let flux = [("FLUX_TASK_LOCAL_ID", "3")];
    let of_all = |lists: &[&[(&'static str, &'static str)]]| lists.concat();

    let rank = of(&of_all(&[&slurm, &open_mpi])).unwrap();
    assert_eq!((rank.rank(), rank.launcher()), (2, Some(Launcher::OpenMpi)));
    assert!(rank.to_string().ends_with("of Open MPI says, and not 0, as SLURM_LOCALID says"), "{rank}");

    assert_eq!(told(&of_all(&[&slurm, &torchrun])), (1, Some(2), Some(Launcher::Torchrun)));
    assert_eq!(told(&of_all(&[&open_mpi, &torchrun])), (1, Some(2), Some(Launcher::Torchrun)));
    assert_eq!(told(&of_all(&[&slurm, &flux])), (3, None, Some(Launcher::Flux)));
    let explicit = [("CUSTACK_LOCAL_RANK", "9")];
    let rank = of(&of_all(&[&slurm, &open_mpi, &torchrun, &explicit])).unwrap();
    assert_eq!((rank.rank(), rank.size(), rank.launcher()), (9, None, Some(Launcher::Explicit)));
    assert!(
        rank.to_string().ends_with(
            "says, and not 1, as LOCAL_RANK says or 2, as OMPI_COMM_WORLD_LOCAL_RANK says or 0, as SLURM_LOCALID says"
        ),
        "{rank}"
    );

    // Without torchrun's own variable a `LOCAL_RANK` may be anybody's, and comes last.
    assert_eq!(told(&of_all(&[&slurm, &[("LOCAL_RANK", "5")]])), (0, Some(1), Some(Launcher::Slurm)));
    assert_eq!(told(&[("LOCAL_RANK", "5")]), (5, None, Some(Launcher::Torchrun)));
    // Those that agree are not told.
    let agreed = of(&[("SLURM_LOCALID", "2"), ("LOCAL_RANK", "2")]).unwrap();
    assert_eq!(agreed.to_string(), "local rank 2, as SLURM_LOCALID of Slurm says");
}

#[test]
fn an_empty_variable_is_unset() {
    assert_eq!(told(&[("CUSTACK_LOCAL_RANK", ""), ("SLURM_LOCALID", "1")]), (1, None, Some(Launcher::Slurm)));
}

#[test]
fn a_value_that_is_no_number_is_an_error_that_names_the_variable_and_the_value() {
    for bad in ["two", "-1", "+1", " 1", "1.0", "4294967296", "0x1"] {
        for name in ["CUSTACK_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"] {
            let error = of(&[(name, bad), ("FLUX_TASK_LOCAL_ID", "1")]);
            if name == "SLURM_LOCALID" {
                // What comes later is not relied upon.
                assert_eq!(error.unwrap().rank(), 1);
                continue;
            }
            let error = error.unwrap_err();
            assert_eq!((error.variable(), error.value()), (name, bad));
            let said = format!(
                "the environment variable {name} holds {bad:?}, which is not a number of a process, from 0"
            );
            assert_eq!(error.to_string(), said);
        }
    }
    let sizes = [
        ("CUSTACK_LOCAL_RANK", "CUSTACK_LOCAL_SIZE", "0"),
        ("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "many"),
        ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "2(x"),
        ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "x"),
    ];
    for (name, size, bad) in sizes {
        let error = of(&[(name, "0"), (size, bad)]).unwrap_err();
        assert_eq!((error.variable(), error.value()), (size, bad));
    }
}

#[test]
#[cfg(unix)]
fn a_value_that_is_not_text_is_an_error_too() {
    use std::os::unix::ffi::OsStringExt;
    let bad = |name: &str| (name == "LOCAL_RANK").then(|| OsString::from_vec(vec![b'1', 0xff]));
    assert_eq!(LocalRank::from_variables(bad).unwrap_err().value(), "1\u{fffd}");
}

#[test]
fn slurms_list_is_read_for_this_node() {
    for (node, list, size) in [
        ("0", "4(x2),3", Some(4)),
        ("1", "4(x2),3", Some(4)),
        ("2", "4(x2),3", Some(3)),
        ("1", "2,5,7(x3)", Some(5)),
        ("4", "2,5,7(x3)", Some(7)),
    ] {
        let variables = [("SLURM_LOCALID", "0"), ("SLURM_NODEID", node), ("SLURM_STEP_TASKS_PER_NODE", list)];
        assert_eq!(of(&variables).unwrap().size(), size, "{variables:?}");
    }
    // A list of another step, in which this process cannot be.
    assert_eq!(of(&[("SLURM_LOCALID", "5"), ("SLURM_STEP_TASKS_PER_NODE", "1")]).unwrap().size(), None);
}

#[test]
fn processes_begin_again_at_device_0_when_there_are_more_than_devices() {
    run(|| {
        let count = Device::num_devices().unwrap();
        for rank in [0, 1, count - 1, count, 2 * count + 1, u32::MAX] {
            let chosen = ProcessDevice::for_rank(LocalRank::new(rank, None)).unwrap();
            assert_eq!(chosen.device(), Device::get_device(rank % count).unwrap());
            assert_eq!((chosen.count(), chosen.rank().rank()), (count, rank));
            let shared =
                format!("there are fewer devices than processes, and {rank} modulo {count} is taken");
            assert_eq!(chosen.to_string().ends_with(&shared), rank >= count, "{chosen}");
            assert_eq!(Device::from(chosen.clone()), chosen.device());
        }
        let chosen = ProcessDevice::for_rank(LocalRank::new(0, Some(2))).unwrap();
        let said = format!(
            "this process takes device 0 of {count}, because it is local rank 0 of 2 processes, as the program says"
        );
        assert_eq!(chosen.to_string(), said);
    });
}

#[test]
fn what_is_chosen_is_reported_too() {
    run(|| {
        let mut said = String::new();
        let lines = reported(|| {
            said = ProcessDevice::for_rank(LocalRank::new(7, Some(8))).unwrap().to_string();
        });
        assert_eq!(lines, [(tracing::Level::DEBUG, said)]);
    });
}
