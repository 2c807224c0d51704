//! Kernels against plain references in f64, finite differences, candle, and themselves on other numbers of threads.
