//! The bytes of the simulated driver's allocations, by themselves: words of all widths, and many threads.

use stored::{ROW, Storage};
use words::Word;

/// Memory that processes share, which these tests do not have.
struct Shared(std::convert::Infallible);

impl Shared {
    fn start(&self) -> usize {
        match self.0 {}
    }

    fn size(&self) -> usize {
        match self.0 {}
    }
}

mod addresses {
    pub(super) const GRANULE: u64 = 512;
}

#[path = "../../../src/memory/block.rs"]
mod block;

#[allow(dead_code, reason = "these tests do not copy")]
#[path = "../../../src/memory/storage.rs"]
mod stored;

#[path = "../../../src/memory/words.rs"]
mod words;

const PAGE: usize = 1 << 16;

/// In one piece, and in pages.
fn both() -> [Storage; 2] {
    [3 * PAGE, (1 << 24) + 8].map(|size| Storage::new(size, false).unwrap())
}

fn word_of<T: Word + PartialEq + std::fmt::Debug>(one: T, two: T) {
    for storage in both() {
        for at in [0, 7 * T::SIZE, PAGE - T::SIZE, PAGE, 2 * PAGE] {
            assert_eq!(storage.load::<T>(at), T::default());
            storage.store(at, one).unwrap();
            assert_eq!(storage.update(at, |old: T| if old == one { two } else { one }).unwrap(), one);
            assert_eq!(storage.load::<T>(at), two);
            assert_eq!(storage.load::<T>(at + T::SIZE), T::default());
            storage.store(at, T::default()).unwrap();
        }
    }
}

#[test]
fn words_of_all_widths_are_read_written_and_updated() {
    word_of(0x12u8, 0x21);
    word_of(0x1234u16, 0x4321);
    word_of(0x1234_5678u32, 0x8765_4321);
    word_of(0x1234_5678_9abc_def0u64, 0x0fed_cba9_8765_4321);
    word_of(0x1234_5678_9abc_def0_0f1e_2d3c_4b5a_6978u128, 0x8796_a5b4_c3d2_e1f0_0fed_cba9_8765_4321);
    let [storage, _] = both();
    storage.store(16, 1u128 << 64 | 2).unwrap();
    assert_eq!([storage.load::<u64>(16), storage.load::<u64>(24)], [2, 1], "the low half comes first");
}

fn row_of<T: Word + PartialEq + std::fmt::Debug>(word: impl Fn(usize) -> T) {
    let row: [T; ROW] = std::array::from_fn(word);
    for (paged, storage) in [false, true].into_iter().zip(both()) {
        let mut back = row;
        assert!(storage.load_row(PAGE, &mut back), "what is not there yet");
        assert_eq!(back, [T::default(); ROW]);
        for at in [0, T::SIZE, PAGE, PAGE - ROW * T::SIZE] {
            assert!(storage.store_row(at, &row));
            assert!(storage.load_row(at, &mut back));
            assert_eq!(back, row);
            assert_eq!(storage.load::<T>(at + (ROW - 1) * T::SIZE), row[ROW - 1]);
        }
        let over_two_pages = PAGE - T::SIZE;
        assert_eq!(storage.store_row(over_two_pages, &row), !paged);
        assert_eq!(storage.load_row(over_two_pages, &mut back), !paged);
        let past_the_end = storage.load_row(3 * PAGE - T::SIZE, &mut back);
        assert!(!past_the_end);
        assert!(!storage.load_row(usize::MAX - T::SIZE + 1, &mut back));
        if T::SIZE > 1 {
            assert!(!storage.store_row(1, &row) && !storage.load_row(1, &mut back), "not aligned");
        }
    }
}

#[test]
fn rows_are_read_and_written_where_they_are_in_one_place() {
    row_of(|at| at as u8 + 1);
    row_of(|at| at as u16 + 1);
    row_of(|at| at as u32 + 1);
    row_of(|at| at as u64 + 1);
    row_of(|at| at as u128 + 1);
}

fn panics(f: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
}

#[test]
fn words_outside_or_not_aligned_panic() {
    for storage in both() {
        storage.store(0, 1u64).unwrap();
        for at in [(1 << 24) + 8, (1 << 24) + 5, usize::MAX, usize::MAX - 3] {
            assert!(panics(|| _ = storage.load::<u32>(at)));
            assert!(panics(|| _ = storage.store(at, 1u32)));
            assert!(panics(|| _ = storage.update(at, |old: u32| old)));
        }
        assert!(panics(|| _ = storage.load::<u32>(2)));
        assert!(panics(|| _ = storage.store(8, 1u128)));
        assert!(panics(|| _ = storage.update(1, |old: u16| old)));
    }
}

#[test]
fn threads_that_write_first_at_once_lose_nothing() {
    for storage in both() {
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let storage = &storage;
                scope.spawn(move || {
                    for turn in 0..200 {
                        storage.update(0, |old: u128| old + (1 << 60)).unwrap();
                        storage.update(PAGE + 4, |old: u32| old + 1).unwrap();
                        storage.update(PAGE + 8 + turn % 3, |old: u8| old.wrapping_add(1)).unwrap();
                        storage.store(2 * PAGE + 4 * (4 * turn + thread as usize), thread + 1).unwrap();
                    }
                });
            }
        });
        assert_eq!(storage.load::<u128>(0), 800 << 60);
        assert_eq!(storage.load::<u32>(PAGE + 4), 800);
        let [a, b, c] = [0, 1, 2].map(|at| storage.load::<u8>(PAGE + 8 + at));
        assert_eq!([a, b, c], [(67 * 4) as u8, (67 * 4) as u8, (66 * 4) as u8]);
        for at in 0..800 {
            assert_eq!(storage.load::<u32>(2 * PAGE + 4 * at), at as u32 % 4 + 1);
        }
    }
}

#[test]
fn memory_of_the_program_is_aligned_as_its_addresses_are() {
    let mut numbers = [0u64; 40];
    let start = numbers.as_mut_ptr().expose_provenance() + 4;
    let storage = Storage::of_program(start, 36 * 8);
    storage.store(4, 5u64).unwrap();
    assert!(panics(|| _ = storage.store(0, 5u64)));
    assert!(storage.store_row(4, &[3u64; ROW]) && !storage.store_row(0, &[3u64; ROW]));
    drop(storage);
    assert_eq!(numbers[1..33], [3; 32]);
    assert_eq!([numbers[0], numbers[33]], [0, 0]);
}
