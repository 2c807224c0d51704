//! The kernels' sources as a library of this machine, and launches of them.

use std::collections::hash_map::DefaultHasher;
use std::ffi::{CStr, c_char, c_void};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use candle_core::DType;
use libloading::Library;

use super::memory::{Memory, pad};
use crate::kernels::cuda::list::{self, Kernel, Param};

/// Asks for the form that stops at an index beyond a buffer; see [`sanitized`].
pub const SANITIZE: &str = "TUNEPIPE_TEST_SANITIZE";

const FLAGS: &[&str] =
    &["-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"];
const CHECKS: &[&str] = &["-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// The sources' folders, as they lie in the repository.
fn folders() -> [PathBuf; 2] {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels");
    [kernels.join("cuda"), kernels.join("tests/cuda")]
}

pub fn compiler() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned())
}

/// Where a compiler is missing, tests of the kernels are skipped, but never where everything has to be checked.
#[allow(clippy::print_stderr, reason = "the test's own word to who runs it")]
fn there_is_no_compiler() -> bool {
    let found = Command::new(compiler()).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        let wanted = "a C++ compiler (g++, or the one that CXX names)";
        assert!(std::env::var_os("CI").is_none(), "the CUDA kernels cannot be checked without {wanted}");
        eprintln!("skipped: the CUDA kernels are checked on the processor with {wanted}; install one to run this");
    }
    !found
}

/// The kernels, compiled once; none where this machine has no compiler, which has been said then.
pub fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let open = || {
        let path = (!there_is_no_compiler()).then(|| build(std::env::var_os(SANITIZE).is_some()))?;
        // SAFETY: the library is ours, and loading it runs nothing.
        Some(unsafe { Library::new(&path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    };
    LIBRARY.get_or_init(open).as_ref()
}

/// Compiles every file, or finds what an earlier run made of the same sources.
pub fn build(sanitized: bool) -> PathBuf {
    let [cuda, host] = folders();
    let flags: Vec<&str> = FLAGS.iter().chain(CHECKS.iter().filter(|_| sanitized)).copied().collect();
    let mut files: Vec<PathBuf> = list::FILES.iter().map(|file| cuda.join(file.name)).collect();
    files.extend(["host.cpp", "mistakes.cu"].map(|name| host.join(name)));
    let headers = list::HEADERS.iter().map(|file| cuda.join(file.name)).chain([host.join("host.hpp")]);

    let mut hash = DefaultHasher::new();
    (&flags, compiler(), version()).hash(&mut hash);
    for path in files.iter().cloned().chain(headers) {
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).hash(&mut hash);
    }
    let exe = std::env::current_exe().expect("a test runs from a file");
    let kept = exe.parent().expect("which lies in a folder").join("cuda-on-the-host");
    let library = kept.join(format!("{:016x}.so", hash.finish()));
    if library.exists() {
        return library;
    }
    std::fs::create_dir_all(&kept).expect("the build folder can be written");
    let room = tempfile::tempdir_in(&kept).expect("the build folder can be written");
    let object = |path: &PathBuf| room.path().join(path.file_name().expect("a file")).with_extension("o");
    std::thread::scope(|scope| {
        for half in files.chunks(files.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(|path| compile(path, &object(path), &flags)));
        }
    });
    let mut link = Command::new(compiler());
    let whole = room.path().join("whole.so");
    link.args(&flags).arg("-shared").arg("-o").arg(&whole).args(files.iter().map(object));
    said(&mut link);
    std::fs::rename(whole, &library).expect("the library can be put in its place");
    library
}

fn version() -> Vec<u8> {
    Command::new(compiler()).arg("--version").output().map(|output| output.stdout).unwrap_or_default()
}

fn compile(path: &Path, object: &Path, flags: &[&str]) {
    let [cuda, host] = folders();
    let mut command = Command::new(compiler());
    command.args(flags).arg("-I").arg(cuda).arg("-include").arg(host.join("host.hpp"));
    said(command.args(["-x", "c++", "-c"]).arg(path).arg("-o").arg(object));
}

fn said(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Index {
    x: u32,
    y: u32,
    z: u32,
}

/// The shape of a launch, as host.hpp has it.
#[repr(C)]
struct Shape {
    grid: Index,
    block: Index,
    shared: u64,
    order: u64,
}

/// What a kernel is given.
pub enum Arg<'a> {
    Read(&'a Memory),
    Write(&'a mut Memory),
    /// What an earlier argument, counted from 0, is.
    Again(usize),
    Null,
    I32(i32),
    I64(i64),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Arg<'_> {
    fn param(&self) -> Param {
        match self {
            Arg::Read(_) | Arg::Write(_) | Arg::Again(_) | Arg::Null => Param::Memory,
            Arg::I32(_) => Param::I32,
            Arg::I64(_) => Param::I64,
            Arg::U32(_) => Param::U32,
            Arg::U64(_) => Param::U64,
            Arg::F32(_) => Param::F32,
            Arg::F64(_) => Param::F64,
        }
    }
}

macro_rules! arguments {
    ($($value:ty => $arg:ident),* $(,)?) => {
        $(impl<'a> From<$value> for Arg<'a> {
            fn from(value: $value) -> Self {
                Arg::$arg(value)
            }
        })*
    };
}
arguments!(
    &'a Memory => Read, &'a mut Memory => Write, i32 => I32, i64 => I64, u32 => U32, u64 => U64, f32 => F32, f64 => F64,
);

impl From<usize> for Arg<'_> {
    fn from(value: usize) -> Self {
        Arg::I64(value as i64)
    }
}

/// Launches a kernel of the list over so many items, as `launch!(DType::F32, "add", [n], &mut y, &x, n)`. Without a compiler
/// it returns from the test.
macro_rules! launch {
    ($storage:expr, $name:literal, [$($items:expr),+], $($arg:expr),* $(,)?) => {
        if !$crate::kernels::tests::cuda::host::launched($storage, $name, &[$($items),+], &mut [$($arg.into()),*]) {
            return;
        }
    };
}
pub(super) use launch;

/// Runs the kernel with blocks and threads in several orders, and with fewer blocks where that may not matter; outputs
/// have to agree in every bit. `items` are those along x, then
/// those along y or, where there is no y, what shared memory grows with.
#[track_caller]
pub fn launched(storage: DType, name: &str, items: &[usize], args: &mut [Arg<'_>]) -> bool {
    let Some(library) = library() else { return false };
    let kernel = list::find(name).unwrap_or_else(|| panic!("no kernel is called `{name}`"));
    let symbol = kernel.symbol(storage).unwrap_or_else(|| panic!("`{name}` has no form for {storage:?}"));
    let given: Vec<Param> = args.iter().map(Arg::param).collect();
    assert_eq!(Some(given), kernel.params(), "`{name}` takes other arguments");
    if let Err(problem) = run_in_orders(library, kernel, &symbol, items, args) {
        panic!("`{symbol}`: {problem}");
    }
    true
}

fn run_in_orders(
    library: &Library,
    kernel: &Kernel,
    symbol: &str,
    items: &[usize],
    args: &mut [Arg<'_>],
) -> Result<(), String> {
    let at = |i: usize| items.get(i).copied().unwrap_or(0);
    let (x, y) = kernel.grid(at(0), at(1)).map_err(|fault| fault.to_string())?;
    let fewer = if kernel.share == list::Share::Thread { x.div_ceil(3) } else { x };
    let mut first: Option<Vec<Memory>> = None;
    // Which addresses are touched does not hang on the order, and looking at each takes its time.
    let orders = if std::env::var_os(SANITIZE).is_some() { 1 } else { 3 };
    for (order, x) in [(0, x), (1, x), (77, fewer)].into_iter().take(orders) {
        let shape = Shape {
            grid: Index { x, y, z: 1 },
            block: Index { x: kernel.block, y: 1, z: 1 },
            shared: kernel.shared(at(1)) as u64,
            order,
        };
        let found = run(library, symbol, &shape, args)?;
        match &first {
            Some(first) if *first != found => return Err("threads in another order give other bits".to_owned()),
            Some(_) => {}
            None => first = Some(found),
        }
    }
    let written = args.iter_mut().filter_map(|arg| if let Arg::Write(memory) = arg { Some(memory) } else { None });
    for (memory, found) in written.zip(first.into_iter().flatten()) {
        **memory = found;
    }
    Ok(())
}

/// One launch, on copies of what is written, which are returned.
fn run(library: &Library, symbol: &str, shape: &Shape, args: &[Arg<'_>]) -> Result<Vec<Memory>, String> {
    let mut written: Vec<Memory> = args
        .iter()
        .filter_map(|arg| if let Arg::Write(memory) = arg { Some((**memory).clone()) } else { None })
        .collect();
    let mut outputs = written.iter_mut();
    // Every argument in eight bytes, of which a kernel reads as many as its type has.
    let mut values: Vec<u64> = Vec::new();
    for arg in args {
        let value = match arg {
            Arg::Read(memory) => memory.address() as u64,
            Arg::Write(_) => outputs.next().map_or(0, |memory| memory.address_mut() as u64),
            Arg::Again(earlier) => values[*earlier],
            Arg::Null => 0,
            Arg::I32(v) => pad(v.to_ne_bytes()),
            Arg::I64(v) => pad(v.to_ne_bytes()),
            Arg::U32(v) => pad(v.to_ne_bytes()),
            Arg::U64(v) => pad(v.to_ne_bytes()),
            Arg::F32(v) => pad(v.to_ne_bytes()),
            Arg::F64(v) => pad(v.to_ne_bytes()),
        };
        values.push(value);
    }
    let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
    type Entry = unsafe extern "C" fn(*const Shape, *mut *mut c_void) -> *const c_char;
    // SAFETY: EXPORT_AS gives every kernel this form; its arguments are of the kinds that its source names, and what they
    // point to lives until the call is over.
    unsafe {
        let entry = library.get::<Entry>(symbol.as_bytes()).map_err(|error| error.to_string())?;
        let problem = entry(shape, pointers.as_mut_ptr());
        match problem.is_null() {
            true => Ok(written),
            false => Err(CStr::from_ptr(problem).to_string_lossy().into_owned()),
        }
    }
}

/// A kernel of mistakes.cu, one block of `threads`.
pub fn run_mistake(symbol: &str, threads: u32, memory: &mut Memory) -> Result<(), String> {
    let Some(library) = library() else { return Ok(()) };
    let kernel = Kernel { block: threads, share: list::Share::All, ..list::KERNELS[0] };
    run_in_orders(library, &kernel, symbol, &[1], &mut [memory.into()])
}

/// Runs this program's test once more as a child, in which an access beyond a buffer ends the process.
pub fn sanitized(filter: &[&str]) -> Option<Output> {
    if there_is_no_compiler() {
        return None;
    }
    build(true);
    let name = "-print-file-name=libasan.so";
    let runtime = said(Command::new(compiler()).arg(name)).stdout;
    let runtime = String::from_utf8_lossy(&runtime).trim().to_owned();
    assert!(Path::new(&runtime).is_absolute(), "{} has no address sanitizer", compiler());
    let mut child = Command::new(std::env::current_exe().expect("a test runs from a file"));
    child.args(filter).env(SANITIZE, "1").env("LD_PRELOAD", runtime);
    child.env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
    Some(child.output().expect("the tests start once more"))
}
