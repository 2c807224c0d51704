//! The CUDA forms, compiled as C++ and run on the processor, against the CPU forms: over random shapes with ragged edges,
//! in every storage type. Where sums run in the same order the bits have to be the same.
//!
//! `host` compiles and launches, host.hpp and host.cpp stand in for the card.

mod attention;
mod host;
mod loss;
mod memory;
mod nf4;
mod norm;
mod optimizer;
mod pointwise;
mod random;
mod rope;
mod rows;
mod thin;

use std::collections::BTreeSet;

use candle_core::DType;

use super::*;
use crate::kernels::cuda::list;
use host::launch;
use memory::{Memory, STORAGE};

/// Noise in a storage type, and the same values in f32 for the CPU form.
fn noise_in(storage: DType, n: usize, seed: u64) -> (Memory, Buf) {
    let memory = Memory::of(storage, &noise(n, seed));
    let wide = buf(&memory.values());
    (memory, wide)
}

/// Shapes (rows, width) that no warp, block or chunk divides, one that they do, and some by lot.
fn shapes(seed: u64) -> Vec<(usize, usize)> {
    let mut shapes = vec![(1, 1), (1, 300), (9, 1), (7, 31), (8, 64), (33, 257), (131, 45)];
    let lot = |i, most| 1 + (uniform(Key::new(seed), i) * most) as usize;
    shapes.extend((0..4).map(|i| (lot(2 * i, 90.0), lot(2 * i + 1, 400.0))));
    shapes
}

#[test]
fn the_list_and_the_sources_agree() {
    let mut exported = BTreeSet::new();
    for file in list::FILES {
        for line in file.text.lines() {
            if let Some((name, _)) = line.strip_prefix("EXPORT(").and_then(|rest| rest.split_once(',')) {
                exported.insert((file.name, name.to_owned(), list::Types::Each));
            }
            if let Some((name, _)) = line.strip_prefix("EXPORT_F32(").and_then(|rest| rest.split_once(',')) {
                exported.insert((file.name, name.to_owned(), list::Types::F32));
            }
        }
    }
    let listed: BTreeSet<_> = list::KERNELS.iter().map(|k| (k.file, k.name.to_owned(), k.types)).collect();
    assert_eq!(exported, listed);
    assert_eq!(listed.len(), list::KERNELS.len(), "a kernel is listed twice");
    for kernel in list::KERNELS {
        assert!(kernel.params().is_some(), "what `{}` takes cannot be read", kernel.name);
        let warps = kernel.block.is_multiple_of(32) && kernel.block <= 1024;
        assert!(warps || kernel.block == 1, "`{}` has no whole warps", kernel.name);
    }
}

#[test]
fn every_source_is_listed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels/cuda");
    let ends = |name: &str| name.ends_with(".cu") || name.ends_with(".cuh");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = names.filter(|name| ends(name)).collect();
    let listed = list::FILES.iter().chain(list::HEADERS).map(|file| file.name.to_owned()).collect();
    assert_eq!(there, listed);
}

#[test]
fn grids_cover_their_items() {
    let grid = |name, x, y| list::find(name).unwrap().grid(x, y);
    assert_eq!(grid("add", 0, 0).unwrap(), (0, 1));
    assert_eq!(grid("add", 257, 0).unwrap(), (2, 1));
    assert_eq!(grid("rms_norm", 9, 0).unwrap(), (2, 1));
    assert_eq!(grid("thin_product", 33, 0).unwrap(), (2, 1));
    assert_eq!(grid("thin_add", 257, 65).unwrap(), (2, 2));
    assert_eq!(grid("add_losses", 0, 0).unwrap(), (1, 1));
    assert_eq!(grid("add", usize::MAX, 0).unwrap(), (i32::MAX as u32, 1));
    assert_wrong_shape(grid("rope", usize::MAX, 0).map(drop));
    assert_wrong_shape(grid("attention_softmax", 1, 1 << 16).map(drop));
    assert_eq!(list::find("cross_entropy").unwrap().shared(2049), 16);
}

#[test]
fn mistakes_are_found() {
    let found = |symbol| host::run_mistake(symbol, 64, &mut Memory::junk(DType::F32, 64));
    if host::library().is_none() {
        return;
    }
    assert!(found("no_barrier_f32").unwrap_err().contains("another order"));
    let met = found("half_a_barrier_f32").unwrap_err();
    assert!(met.contains("mistakes.cu") && met.contains("has ended"), "{met}");
    let met = found("half_a_warp_f32").unwrap_err();
    assert!(met.contains("waits in a shuffle") && met.contains("has ended"), "{met}");
}

/// Run by [`an_index_beyond_a_buffer_is_found`] alone: each ends the process.
#[test]
#[ignore = "ends the process"]
fn one_too_far() {
    let _ = host::run_mistake("beyond_f32", 64, &mut Memory::junk(DType::F32, 64));
}

#[test]
#[ignore = "ends the process"]
fn one_too_far_in_shared_memory() {
    let _ = host::run_mistake("beyond_shared_f32", 64, &mut Memory::junk(DType::F32, 64));
}

#[test]
fn an_index_beyond_a_buffer_is_found() {
    for name in ["one_too_far", "one_too_far_in_shared_memory"] {
        let path = format!("kernels::tests::cuda::{name}");
        let Some(output) = host::sanitized(&["--ignored", "--exact", &path]) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("heap-buffer-overflow"), "{name}: {said}");
    }
}

/// All of the above and below once more, where an access beyond a buffer, or arithmetic that C++ does not define, ends the
/// process.
#[test]
fn no_kernel_leaves_its_buffers() {
    if std::env::var_os(host::SANITIZE).is_some() {
        return;
    }
    let skip = ["no_kernel_leaves", "an_index_beyond", "mistakes_are_found"];
    let mut filter = vec!["kernels::tests::cuda::"];
    skip.iter().for_each(|name| filter.extend(["--skip", name]));
    let Some(output) = host::sanitized(&filter) else { return };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("running 0 tests"), "{said}");
}
