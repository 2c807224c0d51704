// What stands in for a card when the kernels are compiled as C++: the built-in names of CUDA that they use.
#pragma once
#include <math.h>
#include <stddef.h>
#include <string.h>

#include <utility>

#define __global__
#define __device__
#define __constant__ static const

struct Index {
    unsigned x, y, z;
};

// The launch that a call stands for. `order` says in which order blocks and threads run where nothing makes them wait: 0
// forwards, 1 backwards, else shuffled.
struct Shape {
    Index grid, block;
    unsigned long long shared;
    unsigned long long order;
};

extern thread_local Index threadIdx, blockIdx;
extern thread_local Index blockDim, gridDim;

namespace host {
// Runs `body` once for each thread of each block. What was wrong with how threads met, or null.
const char *run(const Shape &shape, void (*body)(void *), void *with);
// Until every thread of the block is there, at the same line.
void sync_block(const char *file, int line);
// `bits` of lane `source`, once every lane of the warp has given its own.
unsigned long long shuffle(unsigned mask, unsigned long long bits, unsigned source);
// Shared memory of the block, the same for all who ask with one key; junk until it is written.
void *shared(const void *key, size_t bytes);
void *dynamic_shared();

template <class... A, size_t... I> void call(void (*kernel)(A...), void **args, std::index_sequence<I...>) {
    kernel(*static_cast<A *>(args[I])...);
}

template <class... A> struct Launch {
    void (*kernel)(A...);
    void **args;

    static void thread(void *self) {
        Launch *launch = static_cast<Launch *>(self);
        call(launch->kernel, launch->args, std::index_sequence_for<A...>());
    }
};

template <class... A> const char *launch(const Shape *shape, void (*kernel)(A...), void **args) {
    Launch<A...> launch = {kernel, args};
    return run(*shape, &Launch<A...>::thread, &launch);
}
} // namespace host

#define __syncthreads() host::sync_block(__FILE__, __LINE__)

// A heap block of exactly the array's size, so that an index beyond it is found.
#define SHARED(TYPE, NAME, DIMS)                                                                                       \
    typedef TYPE NAME##_array DIMS;                                                                                    \
    static const char NAME##_key = 0;                                                                                  \
    NAME##_array &NAME = *static_cast<NAME##_array *>(host::shared(&NAME##_key, sizeof(NAME##_array)))
#define DYNAMIC_SHARED(TYPE, NAME) TYPE *NAME = static_cast<TYPE *>(host::dynamic_shared())

// A kernel takes its arguments as cuLaunchKernel passes them: a pointer to each.
#define EXPORT_AS(NAME, KERNEL, TYPE, PARAMS, ARGS)                                                                    \
    extern "C" const char *NAME##_##TYPE(const Shape *shape, void **args) {                                            \
        typedef TYPE T;                                                                                                \
        static_assert(sizeof(T) <= 4, "a storage type");                                                               \
        return host::launch(shape, +[] PARAMS { KERNEL ARGS; }, args);                                                 \
    }

template <class A> A shuffled(unsigned mask, A v, unsigned source) {
    static_assert(sizeof(A) <= 8, "a shuffle moves a word or two");
    unsigned long long bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = host::shuffle(mask, bits, source);
    memcpy(&v, &bits, sizeof v);
    return v;
}

template <class A> A __shfl_sync(unsigned mask, A v, unsigned source) {
    return shuffled(mask, v, source % 32);
}

template <class A> A __shfl_down_sync(unsigned mask, A v, unsigned down) {
    unsigned lane = threadIdx.x % 32;
    return shuffled(mask, v, lane + down < 32 ? lane + down : lane);
}

inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof x);
    return bits;
}

inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

inline float half_to_float(unsigned short bits) {
    unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
    if (exponent == 0) {
        float x = ldexpf((float)fraction, -24);
        return sign ? -x : x;
    }
    unsigned wide = exponent == 31 ? 255 : exponent - 15 + 127;
    return __uint_as_float(sign | wide << 23 | fraction << 13);
}

// To the nearest, ties to even, by the processor's own rounding of a number that has no more digits than the half.
inline unsigned short float_to_half(float x) {
    unsigned short sign = (unsigned short)(__float_as_uint(x) >> 16 & 0x8000);
    float size = fabsf(x);
    if (x != x) {
        return (unsigned short)(sign | 0x7E00);
    }
    if (size >= 65520.0f) {
        return (unsigned short)(sign | 0x7C00);
    }
    // Halves below 2⁻¹⁴ are 2⁻²⁴ apart, those above in proportion.
    int exponent = size < 6.103515625e-5f ? -14 : ilogbf(size);
    unsigned whole = (unsigned)nearbyintf(ldexpf(size, 10 - exponent));
    // A whole of 1024 or 2048 carries into the exponent, as it should.
    return (unsigned short)(sign | ((unsigned)((exponent + 14) << 10) + whole));
}
