use half::{bf16, f16};
use tempfile::tempdir;

use super::*;

/// Values whose rounding is decided by ties, signs, subnormals and the ends of the range.
fn awkward() -> Vec<f32> {
    let mut values =
        vec![0.0, -0.0, 1.0, -1.5, 65504.0, 65520.0, 1e-8, -6e-8, 3.0e38, f32::INFINITY, f32::MIN_POSITIVE];
    values.extend((0..5000u32).map(|i| f32::from_bits(0x3f80_0000 + i * 0x0000_4000)));
    values.extend((0..5000).map(|i| ((i as f32) * 0.731).sin() * 0.02));
    values
}

#[test]
fn values_are_rounded_to_nearest_even_and_read_back() {
    let dir = tempdir().unwrap();
    let values = awkward();
    for dtype in [StoredType::F32, StoredType::BF16, StoredType::F16] {
        let path = dir.path().join(dtype.name());
        let mut bytes = vec![0xaa; 3 + values.len() * dtype.block().1];
        encode(dtype, &values, &mut bytes[3..]).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let mut back = vec![0f32; values.len()];
        DiskFile::open(&path).unwrap().read_f32(3, dtype, 0, &mut back).unwrap();
        for (x, y) in values.iter().zip(&back) {
            let expected = match dtype {
                StoredType::BF16 => bf16::from_f32(*x).to_f32(),
                StoredType::F16 => f16::from_f32(*x).to_f32(),
                _ => *x,
            };
            assert_eq!(expected.to_bits(), y.to_bits(), "{x} as {dtype}");
        }
    }
}

#[test]
fn a_tie_goes_to_the_even_neighbour() {
    let bytes = |x: f32| {
        let mut bytes = [0; 2];
        encode(StoredType::BF16, &[x], &mut bytes).unwrap();
        u16::from_le_bytes([bytes[0], bytes[1]])
    };
    assert_eq!(bytes(f32::from_bits(0x3f80_8000)), 0x3f80);
    assert_eq!(bytes(f32::from_bits(0x3f81_8000)), 0x3f82);
    assert_eq!(bytes(f32::from_bits(0x3f80_8001)), 0x3f81);
}

#[test]
fn a_large_read_has_the_bits_of_small_ones() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("f");
    let n = PARALLEL + SHARE + 77;
    let bytes: Vec<u8> = (0..n as u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) as f32).to_le_bytes()).collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = DiskFile::open(&path).unwrap();
    let mut whole = vec![0f32; n];
    file.read_f32(0, StoredType::F32, 0, &mut whole).unwrap();
    let mut pieces = vec![0f32; n];
    for (i, part) in pieces.chunks_mut(12_345).enumerate() {
        file.read_f32(0, StoredType::F32, (i * 12_345) as u64, part).unwrap();
    }
    assert!(whole.iter().zip(&pieces).all(|(a, b)| a.to_bits() == b.to_bits()));
    assert_eq!(whole[n - 1], ((n as u32 - 1).wrapping_mul(2_654_435_761)) as f32);
}

#[test]
fn a_file_that_shrinks_is_an_error_and_not_a_crash() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, vec![0u8; 4096]).unwrap();
    let file = DiskFile::open(&path).unwrap();
    std::fs::write(&path, vec![0u8; 100]).unwrap();
    assert_eq!(file.read_f32(0, StoredType::F32, 0, &mut [0f32; 1024]).unwrap_err().code, "file.changed");
}

#[test]
fn integers_are_not_weights() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, [0u8; 64]).unwrap();
    let file = DiskFile::open(&path).unwrap();
    assert_eq!(file.read_f32(0, StoredType::U8, 0, &mut [0f32; 8]).unwrap_err().code, "model.unreadable_type");
    assert_eq!(encode(StoredType::U8, &[1.0], &mut [0]).unwrap_err().code, "output.dtype");
}

#[test]
fn bad_json_is_placed() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("config.json");
    std::fs::write(&path, "{\n  \"a\": 1,\n  b\n}").unwrap();
    let fault = read_json(&path).unwrap_err();
    assert_eq!(fault.code, "json.syntax");
    assert_eq!(fault.spot.unwrap().line, Some(3));
    assert!(!fault.message.contains(" line "));
    std::fs::write(&path, "[1]").unwrap();
    assert_eq!(read_json(&path).unwrap_err().code, "json.not_an_object");
    std::fs::write(&path, "").unwrap();
    assert_eq!(read_json(&path).unwrap_err().code, "json.syntax");
    assert_eq!(read_json(dir.path()).unwrap_err().code, "file.not_a_file");
    assert_eq!(read_small(&path, 0).map(|b| b.len()).unwrap(), 0);
    std::fs::write(&path, "12").unwrap();
    assert_eq!(read_small(&path, 1).unwrap_err().code, "file.too_large");
}

/// Every bf16 pattern, and ties, NaNs and infinities around it, against the field's own rounding.
#[test]
fn rounding_to_bf16_is_the_fields() {
    for high in 0..=u16::MAX {
        for low in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let x = f32::from_bits(u32::from(high) << 16 | low);
            assert_eq!(round_bf16(x), bf16::from_f32(x).to_bits(), "{:08x}", x.to_bits());
        }
    }
}

#[test]
fn halves_are_copied_as_they_lie() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("f");
    let values: Vec<u16> = (0..PARALLEL as u32 + 77).map(|i| ((i * 40_503) >> 3) as u16).collect();
    let bytes: Vec<u8> = [1, 2, 3].into_iter().chain(values.iter().flat_map(|v| v.to_le_bytes())).collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = DiskFile::open(&path).unwrap();
    for (first, len) in [(0, values.len()), (5, 100), (70_000, WINDOW + 3), (values.len() - 1, 1), (3, 0)] {
        let mut out = vec![0; len];
        file.copy_16(3, first as u64, &mut out).unwrap();
        assert_eq!(out, values[first..first + len]);
    }
    let mut out = vec![0; values.len()];
    assert_eq!(file.copy_16(3, 1, &mut out).unwrap_err().code, "file.changed");
}
