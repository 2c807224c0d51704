use std::path::PathBuf;
use std::sync::OnceLock;

use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use half::slice::HalfFloatSliceExt;

use super::*;
use crate::store::{AtomicFile, StoredType, TensorInfo};
use crate::text::Result;

fn sample() -> Vec<TensorInfo> {
    vec![
        TensorInfo::new("b.weight", &[3, 5], StoredType::BF16),
        TensorInfo::new("a.weight", &[7], StoredType::F32),
        TensorInfo::new("none", &[0, 4], StoredType::F16),
        TensorInfo::new("scalar", &[], StoredType::F16),
    ]
}

fn values(n: u64) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin()).collect()
}

fn written(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("x.safetensors");
    let file = AtomicFile::create(&path, true).unwrap();
    let mut writer = SafetensorsWriter::create(file, &sample(), &[("format", "pt")]).unwrap();
    for info in sample() {
        writer
            .tensor(&info.name, |sink| values(info.elements()?).chunks(4).try_for_each(|part| sink.write_f32(part)))
            .unwrap();
    }
    writer.commit().unwrap();
    path
}

#[test]
fn what_is_written_is_read_back() {
    let dir = tempdir().unwrap();
    let file = TensorFile::open(&written(&dir)).unwrap();
    assert_eq!(file.metadata().get("format").map(String::as_str), Some("pt"));
    for info in sample() {
        let tensor = file.get(&info.name).unwrap();
        assert_eq!((&tensor.shape, tensor.dtype), (&info.shape, info.dtype));
        let n = info.elements().unwrap();
        let mut out = vec![9f32; n as usize];
        file.read_f32(tensor, 0, &mut out).unwrap();
        for (x, y) in values(n).iter().zip(&out) {
            assert!((x - y).abs() <= x.abs() / 256.0);
        }
    }
    let a = file.get("a.weight").unwrap();
    let mut part = [0f32; 3];
    file.read_f32(a, 4, &mut part).unwrap();
    assert_eq!(part[..], values(7)[4..]);
    assert_eq!(file.read_f32(a, 5, &mut part).unwrap_err().code, "model.range");
    assert_eq!(file.read_f32(a, u64::MAX, &mut part).unwrap_err().code, "model.range");
}

#[test]
fn the_formats_own_library_reads_it() {
    let dir = tempdir().unwrap();
    let bytes = std::fs::read(written(&dir)).unwrap();
    let theirs = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let b = theirs.tensor("b.weight").unwrap();
    assert_eq!(b.shape(), [3, 5]);
    let expected: Vec<u8> = values(15).iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect();
    assert_eq!(b.data(), expected);
    assert_eq!(u64::from_le_bytes(bytes[..8].try_into().unwrap()) % 8, 0);
}

#[test]
fn what_the_formats_own_library_writes_is_read() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("theirs.safetensors");
    let data: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let view = ::safetensors::tensor::TensorView::new(::safetensors::Dtype::F32, vec![2, 3], &data).unwrap();
    ::safetensors::serialize_to_file([("w", view)], None, &path).unwrap();
    let file = TensorFile::open(&path).unwrap();
    let mut out = [0f32; 6];
    file.read_f32(&file.tensors()[0], 0, &mut out).unwrap();
    assert_eq!(out, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn every_truncation_is_refused() {
    let dir = tempdir().unwrap();
    let bytes = std::fs::read(written(&dir)).unwrap();
    let path = dir.path().join("cut");
    for n in 0..bytes.len() {
        std::fs::write(&path, &bytes[..n]).unwrap();
        let fault = TensorFile::open(&path).unwrap_err();
        assert_eq!(fault.code, "safetensors.truncated", "at {n}: {fault}");
        assert_eq!(fault.spot.unwrap().path, path);
    }
}

/// Opens a file of this header and `data` bytes.
fn open(header: &str, data: usize) -> Result<TensorFile> {
    let dir = tempdir().unwrap();
    let path = dir.path().join("x");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    std::fs::write(&path, bytes).unwrap();
    TensorFile::open(&path)
}

#[test]
fn lying_headers_are_refused_by_name() {
    let f32_at = |name: &str, shape: &str, from: u64, to: u64| {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let one = |entry: String| format!("{{{entry}}}");
    let cases = [
        ("safetensors.header", String::new()),
        ("safetensors.header", "not json".into()),
        ("safetensors.header", "[]".into()),
        ("safetensors.header", "{}x".into()),
        ("safetensors.header", r#"{"a":{"dtype":"F32"}}"#.into()),
        ("safetensors.header", r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#.into()),
        ("safetensors.header", r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}}"#.into()),
        ("safetensors.header", r#"{"__metadata__":{"format":1}}"#.into()),
        ("safetensors.dtype", r#"{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}"#.into()),
        ("safetensors.offsets", one(f32_at("a", "[2]", 0, 4))),
        ("safetensors.offsets", one(f32_at("a", "[1]", 4, 0))),
        ("safetensors.truncated", one(f32_at("a", "[100]", 0, 400))),
        ("safetensors.truncated", one(f32_at("a", "[1]", 18446744073709551608, 18446744073709551612))),
        ("safetensors.shape", one(f32_at("a", "[18446744073709551615,2]", 0, 4))),
        ("safetensors.shape", one(f32_at("a", "[9223372036854775807]", 0, 4))),
        ("safetensors.overlap", one(f32_at("a", "[2]", 0, 8) + "," + &f32_at("b", "[2]", 4, 12))),
        ("safetensors.overlap", one(f32_at("a", "[2]", 0, 8) + "," + &f32_at("b", "[2]", 0, 8))),
        ("safetensors.trailing", one(f32_at("a", "[2]", 0, 8) + "," + &f32_at("b", "[2]", 16, 24))),
        ("safetensors.duplicate", one(f32_at("a", "[2]", 0, 8) + "," + &f32_at("a", "[2]", 8, 16))),
    ];
    for (code, header) in cases {
        let fault = open(&header, 32).expect_err(&header);
        assert_eq!(fault.code, code, "{header}: {fault}");
    }
    assert!(open(&one(f32_at("a", "[2]", 0, 8) + "," + &f32_at("b", "[2]", 24, 32)), 32).is_ok(), "a gap is let be");
}

#[test]
fn a_header_beyond_all_measure_is_not_allocated() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("x");
    for n in [u64::MAX, 1 << 40, 100_000_001] {
        std::fs::write(&path, n.to_le_bytes()).unwrap();
        assert_eq!(TensorFile::open(&path).unwrap_err().code, "safetensors.header_size");
    }
    std::fs::write(&path, 99_999_999u64.to_le_bytes()).unwrap();
    assert_eq!(TensorFile::open(&path).unwrap_err().code, "safetensors.truncated");
}

#[test]
fn a_writer_holds_its_caller_to_the_list() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("x");
    let start = || SafetensorsWriter::create(AtomicFile::create(&path, false).unwrap(), &sample(), &[]).unwrap();
    assert_eq!(start().tensor("a.weight", |_| Ok(())).unwrap_err().code, "output.order");
    assert_eq!(start().tensor("b.weight", |s| s.write_f32(&[0.0; 14])).unwrap_err().code, "output.size");
    assert_eq!(start().tensor("b.weight", |s| s.write_f32(&[0.0; 16])).unwrap_err().code, "output.size");
    assert_eq!(start().commit().unwrap_err().code, "output.order");
    let mut writer = start();
    writer.tensor("b.weight", |_| Ok(())).unwrap_err();
    assert_eq!(writer.tensor("a.weight", |_| Ok(())).unwrap_err().code, "output.failed");
    assert_eq!(writer.commit().unwrap_err().code, "output.failed");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let twice = [sample(), sample()].concat();
    assert_eq!(header_bytes(&twice, &[]).unwrap_err().code, "output.twice");
    let quantised = [TensorInfo::new("q", &[32], StoredType::Q4_0)];
    assert_eq!(header_bytes(&quantised, &[]).unwrap_err().code, "output.dtype");
    let huge = [TensorInfo::new("h", &[usize::MAX, 2], StoredType::F32)];
    assert_eq!(header_bytes(&huge, &[]).unwrap_err().code, "size.overflow");
}

#[test]
fn bf16_is_written_as_it_is() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("x");
    let list = [TensorInfo::new("w", &[5000], StoredType::BF16)];
    let given: Vec<half::bf16> = (0..5000).map(half::bf16::from_bits).collect();
    let mut writer = SafetensorsWriter::create(AtomicFile::create(&path, false).unwrap(), &list, &[]).unwrap();
    writer.tensor("w", |sink| sink.write_16(StoredType::BF16, given.reinterpret_cast())).unwrap();
    writer.commit().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let expected: Vec<u8> = (0..5000u16).flat_map(u16::to_le_bytes).collect();
    assert!(bytes.ends_with(&expected));
}

proptest! {
    /// Whatever stands in a file, opening and reading it ends in tensors or a fault.
    #[test]
    fn no_bytes_crash_it(mut bytes in prop::collection::vec(any::<u8>(), 0..200), lie in 0u64..300) {
        if bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&lie.to_le_bytes());
        }
        let dir = tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, &bytes).unwrap();
        let _ = TensorFile::open(&path);
    }

    /// One changed byte of a sound file never crashes it either.
    #[test]
    fn no_changed_byte_crashes_it(at in 0usize..400, to in any::<u8>()) {
        static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
        let mut bytes = SOUND.get_or_init(|| std::fs::read(written(&tempdir().unwrap())).unwrap()).clone();
        let dir = tempdir().unwrap();
        let path = dir.path().join("x");
        let at = at % bytes.len();
        bytes[at] = to;
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(file) = TensorFile::open(&path) {
            for tensor in file.tensors() {
                let _ = file.read_f32(tensor, 0, &mut [0f32; 4]);
            }
        }
    }
}

/// The header is written without a tree of values; it is the text that the tree would have.
#[test]
fn a_header_is_the_json_it_stands_for() {
    let tensors = [
        TensorInfo::new("a \"quoted\" näme", &[2, 3], StoredType::BF16),
        TensorInfo::new("vector", &[5], StoredType::F32),
        TensorInfo::new("scalar", &[], StoredType::F32),
    ];
    for metadata in [&[][..], &[("format", "pt"), ("by", "\\")][..]] {
        let bytes = header_bytes(&tensors, metadata).unwrap();
        let text = std::str::from_utf8(&bytes[8..]).unwrap();
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(value.to_string(), text.trim_end());
        assert_eq!(value["vector"]["data_offsets"], serde_json::json!([12, 32]));
        assert_eq!(value.get("__metadata__").is_some(), !metadata.is_empty());
    }
    assert_eq!(header_bytes(&[tensors[1].clone(), tensors[1].clone()], &[]).unwrap_err().code, "output.twice");
}
