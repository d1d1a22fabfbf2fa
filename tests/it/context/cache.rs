//! `CacheConfig` and `SharedMemoryConfig`.

use crate::harness::{parked, pushed, run};
use custack::context::{CacheConfig, CurrentContext, SharedMemoryConfig};
use custack::driver::instrument;
use custack::error::CudaError;

#[test]
fn cache_configs_are_kept() {
    run(|| {
        let ctx = pushed();
        assert_eq!(ctx.cache_config().unwrap(), CacheConfig::PreferNone);
        let all = [
            CacheConfig::PreferShared,
            CacheConfig::PreferL1,
            CacheConfig::PreferEqual,
            CacheConfig::PreferNone,
        ];
        for config in all {
            ctx.set_cache_config(config).unwrap();
            assert_eq!(CurrentContext::get_cache_config().unwrap(), config);
            CurrentContext::set_cache_config(config).unwrap();
            assert_eq!(ctx.cache_config().unwrap(), config);
        }
    });
}

#[test]
fn banks_of_shared_memory_have_four_bytes_whatever_is_set() {
    run(|| {
        let ctx = parked();
        for config in [
            SharedMemoryConfig::DefaultBankSize,
            SharedMemoryConfig::FourByteBankSize,
            SharedMemoryConfig::EightByteBankSize,
        ] {
            ctx.set_shared_memory_config(config).unwrap();
            assert_eq!(ctx.shared_memory_config().unwrap(), SharedMemoryConfig::FourByteBankSize);
        }
        ctx.scoped(|_| {
            CurrentContext::set_shared_memory_config(SharedMemoryConfig::DefaultBankSize)?;
            assert_eq!(CurrentContext::get_shared_memory_config()?, SharedMemoryConfig::FourByteBankSize);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn the_hidden_last_configs_are_refused_without_a_call() {
    run(|| {
        let ctx = pushed();
        let (results, calls) = instrument::during(|| {
            [
                ctx.set_cache_config(CacheConfig::__Nonexhaustive),
                CurrentContext::set_cache_config(CacheConfig::__Nonexhaustive),
                ctx.set_shared_memory_config(SharedMemoryConfig::__Nonexhaustive),
                CurrentContext::set_shared_memory_config(SharedMemoryConfig::__Nonexhaustive),
            ]
        });
        assert_eq!(results, [Err(CudaError::InvalidValue); 4]);
        assert_eq!(calls.total(), 0);
        let said = crate::harness::said(CudaError::InvalidValue);
        assert!(said.contains("SharedMemoryConfig::__Nonexhaustive, which stands for nothing"), "{said}");
    });
}

#[test]
fn numbers_are_the_drivers() {
    assert_eq!([CacheConfig::PreferNone as u32, CacheConfig::PreferShared as u32], [0, 1]);
    assert_eq!([CacheConfig::PreferL1 as u32, CacheConfig::PreferEqual as u32], [2, 3]);
    assert_eq!(SharedMemoryConfig::DefaultBankSize as u32, 0);
    assert_eq!(SharedMemoryConfig::FourByteBankSize as u32, 1);
    assert_eq!(SharedMemoryConfig::EightByteBankSize as u32, 2);
}
