//! What there is to compile and to launch: the one list that launches, the check of every architecture and the tests read.

use candle_core::DType;

use crate::kernels::shape::wrong;
use crate::text::Result;

/// A file of kernels, or what such files include.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// As an `#include` names it.
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(Source { name: $name, text: include_str!($name) }),*]
    };
}

/// What the files include; nothing else is needed to compile them, CUDA's own headers neither.
pub const HEADERS: &[Source] = sources!["common.cuh", "columns.cuh", "dynamic.cuh"];

pub const FILES: &[Source] = sources![
    "attention.cu",
    "loss.cu",
    "nf4.cu",
    "norm.cu",
    "optimizer.cu",
    "pointwise.cu",
    "random.cu",
    "rope.cu",
    "rows.cu",
    "thin.cu",
];

/// How the files are compiled, beside the architecture. Multiplications and additions stay apart, as in the CPU forms.
pub const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false"];

/// The types in which a kernel exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Types {
    /// Storage in f32, bf16 or f16: three kernels.
    Each,
    /// One kernel, which has no storage type.
    F32,
}

/// How much of the work a block takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// An item a thread; any number of blocks does, since threads go on to further items.
    Thread,
    /// So many items a block.
    Block(u32),
    /// So many items a warp.
    Warp(u32),
    /// One block takes all.
    All,
}

/// A kernel and the launch that its comment asks for.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    pub name: &'static str,
    pub file: &'static str,
    pub types: Types,
    /// Threads a block.
    pub block: u32,
    /// Along x: of elements, rows, columns, … as the comment says.
    pub share: Share,
    /// Items a block takes along y; 0 where there is no y.
    pub y: u32,
    /// Items along x's row for each 8 bytes of shared memory; 0 where a launch gives none.
    pub shared_per: u32,
}

const fn kernel(file: &'static str, name: &'static str, block: u32, share: Share) -> Kernel {
    Kernel { name, file, types: Types::Each, block, share, y: 0, shared_per: 0 }
}

impl Kernel {
    const fn f32(self) -> Kernel {
        Kernel { types: Types::F32, ..self }
    }

    const fn y(self, items: u32) -> Kernel {
        Kernel { y: items, ..self }
    }

    const fn shared_per(self, items: u32) -> Kernel {
        Kernel { shared_per: items, ..self }
    }
}

use Share::{All, Block, Thread, Warp};

pub const KERNELS: &[Kernel] = &[
    kernel("pointwise.cu", "add", 256, Thread),
    kernel("pointwise.cu", "add_bias", 256, Block(1)),
    kernel("pointwise.cu", "bias_backward", 256, Block(32)),
    kernel("pointwise.cu", "scale", 256, Thread),
    kernel("pointwise.cu", "fill", 256, Thread),
    kernel("pointwise.cu", "copy", 256, Thread),
    kernel("pointwise.cu", "widen_all", 256, Thread),
    kernel("pointwise.cu", "narrow_all", 256, Thread),
    kernel("pointwise.cu", "swiglu", 256, Thread),
    kernel("pointwise.cu", "swiglu_backward", 256, Thread),
    kernel("norm.cu", "rms_norm", 256, Warp(1)),
    kernel("norm.cu", "rms_norm_apply", 256, Block(1)),
    kernel("norm.cu", "rms_norm_backward", 256, Warp(1)),
    kernel("norm.cu", "rms_norm_weight", 256, Block(32)),
    kernel("rope.cu", "rope", 256, Block(1)),
    kernel("loss.cu", "cross_entropy", 512, Block(1)).shared_per(2048),
    kernel("loss.cu", "cross_entropy_gradient", 512, Block(1)).shared_per(2048),
    kernel("loss.cu", "add_losses", 512, All).f32(),
    kernel("attention.cu", "attention_softmax", 128, Warp(1)).y(1),
    kernel("attention.cu", "attention_mean", 128, Warp(1)).y(1),
    kernel("attention.cu", "attention_softmax_backward", 128, Warp(1)).y(1),
    kernel("rows.cu", "embedding", 256, Block(1)),
    kernel("rows.cu", "embedding_narrow", 256, Block(1)),
    kernel("rows.cu", "embedding_widen", 256, Block(1)),
    kernel("rows.cu", "embedding_backward", 256, Block(1)),
    kernel("rows.cu", "gather_rows", 256, Block(1)),
    kernel("rows.cu", "scatter_rows", 256, Block(1)),
    kernel("nf4.cu", "nf4_quantise", 256, Warp(1)),
    kernel("nf4.cu", "nf4_dequantise", 256, Thread),
    kernel("nf4.cu", "nf4_dequantise_double", 256, Thread),
    kernel("nf4.cu", "nf4_offset", 512, All).f32(),
    kernel("nf4.cu", "nf4_double", 256, Block(256)).f32(),
    kernel("optimizer.cu", "sum_squares", 256, Block(1 << 16)),
    kernel("optimizer.cu", "begin_step", 512, All).f32(),
    kernel("optimizer.cu", "adamw", 256, Thread),
    kernel("optimizer.cu", "adamw8", 256, Block(256)),
    kernel("optimizer.cu", "unscale", 256, Thread),
    kernel("optimizer.cu", "loss_scale", 1, All).f32(),
    kernel("random.cu", "fill_uniform", 256, Thread),
    kernel("random.cu", "fill_normal", 256, Thread),
    kernel("random.cu", "dropout", 256, Thread),
    kernel("random.cu", "dropout_add", 256, Thread),
    kernel("thin.cu", "thin_product", 256, Warp(4)),
    kernel("thin.cu", "thin_add", 256, Block(256)).y(64),
    kernel("thin.cu", "thin_sum", 256, Block(32)).y(8),
    kernel("thin.cu", "thin_sum_turned", 256, Block(32)).y(8),
    kernel("thin.cu", "turn", 256, Thread).f32(),
];

/// The kernel of a name.
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

/// What a kernel takes, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param {
    /// A pointer into the card's memory.
    Memory,
    I32,
    I64,
    U32,
    U64,
    F32,
    F64,
}

impl Kernel {
    /// The name under which the kernel for a storage type is found; none where there is no such kernel.
    pub fn symbol(&self, storage: DType) -> Option<String> {
        let suffix = match (storage, self.types) {
            (DType::F32, _) => "f32",
            (DType::BF16, Types::Each) => "bf16",
            (DType::F16, Types::Each) => "f16",
            _ => return None,
        };
        Some(format!("{}_{suffix}", self.name))
    }

    /// Blocks along x and y for so many items; none along x where there is nothing to do.
    pub fn grid(&self, x: usize, y: usize) -> Result<(u32, u32)> {
        /// What CUDA takes along each.
        const MOST: (usize, usize) = (i32::MAX as usize, u16::MAX as usize);
        let along = match self.share {
            Share::Thread => x.div_ceil(self.block as usize),
            Share::Block(items) => x.div_ceil(items as usize),
            Share::Warp(items) => x.div_ceil((self.block / 32 * items) as usize),
            Share::All => 1,
        };
        let blocks = (along, if self.y == 0 { 1 } else { y.div_ceil(self.y as usize) });
        // A kernel that goes on to further items needs no block for each.
        let blocks = if self.share == Share::Thread { (blocks.0.min(MOST.0), blocks.1) } else { blocks };
        if blocks.0 > MOST.0 || blocks.1 > MOST.1 {
            return Err(wrong(format!("`{}` cannot be launched for {x} × {y} items", self.name)));
        }
        Ok((blocks.0 as u32, blocks.1 as u32))
    }

    /// Bytes of shared memory for rows of `items`.
    pub fn shared(&self, items: usize) -> usize {
        if self.shared_per == 0 { 0 } else { items.div_ceil(self.shared_per as usize) * 8 }
    }

    /// What the kernel takes, as its source says; none where the source does not have it.
    pub fn params(&self) -> Option<Vec<Param>> {
        let text = FILES.iter().find(|file| file.name == self.file)?.text;
        let export = match self.types {
            Types::Each => format!("EXPORT({},", self.name),
            Types::F32 => format!("EXPORT_F32({},", self.name),
        };
        let (_, rest) = text.split_once(&export)?;
        let (params, _) = rest.split_once('(')?.1.split_once(')')?;
        params.split(',').map(param).collect()
    }
}

fn param(text: &str) -> Option<Param> {
    if text.contains('*') {
        return Some(Param::Memory);
    }
    match text.split_whitespace().next()? {
        "i32" => Some(Param::I32),
        "i64" => Some(Param::I64),
        "u32" => Some(Param::U32),
        "u64" => Some(Param::U64),
        "f32" => Some(Param::F32),
        "f64" => Some(Param::F64),
        _ => None,
    }
}
