//! Files of models and adapters: safetensors, GGUF, Hugging Face and PEFT folders. Everything is read in windows and
//! written atomically; plain slices go in and out, and no kernel, model or stage is known here.
//!
//! Reads of a million values and more map the window they read and let it go; smaller ones, and those of a file system
//! that cannot map, go by position. No such map outlives its read, so a model's pages never count as the process's own
//! memory for long, and a file that is cut short between two reads is an error message. Tensors that a pipeline wants to
//! use where they lie are [`Mapped`] one by one, each for as long as it is used. Windows of reads by position lie
//! on the stack of the reading thread ([`WINDOW`] bytes each), so reading allocates nothing.

mod atomic;
mod cache;
mod disk;
pub mod gguf;
mod glob;
mod near;
pub mod peft;
pub mod safetensors;
mod source;
mod state;
mod types;
mod writer;

pub use atomic::{
    AtomicFile, AtomicFolder, Identity, OutputKind, WRITE_BUFFER, check_output, clear_all_leftovers, resolved, write,
};
pub use cache::{Cache, HASH_BUFFER, Sum, sum_of};
pub use disk::{Mapped, WINDOW};
pub use glob::{expand, is_pattern};
pub use near::near_path;
pub use source::{CARRIED, HfTokenizer, ModelSource, TensorEntry, TokenizerSource};
pub use state::{Bits, BitsMut, State, StateWriter, state_bytes};
pub use types::{StoredType, TensorInfo};
pub use writer::{DEFAULT_SHARD, ModelPlan, ModelWriter};
