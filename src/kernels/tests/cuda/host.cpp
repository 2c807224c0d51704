// A block's threads as fibers: each runs until it waits for others or ends, then the next. So a kernel sees barriers and
// shuffles as on a card, one thread at a time and in an order that the test chooses.
#include "host.hpp"

#include <stdio.h>
#include <ucontext.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

thread_local Index threadIdx, blockIdx, blockDim, gridDim;

namespace {
const size_t STACK = 64 << 10;
const unsigned WARP = 32;

enum class State { Ready, AtBarrier, AtShuffle, Done };

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    State state;
    Index index;
    // Where it waits.
    const char *file;
    int line;
    unsigned shuffles;
    void *sanitizer;
};

struct Warp {
    // Two, so that who comes first to the next shuffle does not write over what others have yet to read.
    unsigned long long words[2][WARP];
};

struct Grid {
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<unsigned> turns;
    std::map<const void *, std::unique_ptr<char[]>> shared;
    size_t dynamic_bytes;
    ucontext_t scheduler;
    void *scheduler_sanitizer;
    const void *scheduler_stack;
    size_t scheduler_bytes;
    Fiber *now;
    void (*body)(void *);
    void *with;
    std::string error;
    unsigned long long random;
};

thread_local Grid grid;

char *junk(size_t bytes) {
    char *memory = new char[bytes];
    memset(memory, 0xFF, bytes);
    return memory;
}

void to_scheduler() {
    Fiber *self = grid.now;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&self->sanitizer, grid.scheduler_stack, grid.scheduler_bytes);
#endif
    swapcontext(&self->context, &grid.scheduler);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(self->sanitizer, &grid.scheduler_stack, &grid.scheduler_bytes);
#endif
}

void resume(Fiber &fiber) {
    grid.now = &fiber;
    threadIdx = fiber.index;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&grid.scheduler_sanitizer, fiber.stack.get(), STACK);
#endif
    swapcontext(&grid.scheduler, &fiber.context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(grid.scheduler_sanitizer, nullptr, nullptr);
#endif
}

// A fiber serves one thread of each block after the other.
void serve() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &grid.scheduler_stack, &grid.scheduler_bytes);
#endif
    for (;;) {
        grid.body(grid.with);
        grid.now->state = State::Done;
        to_scheduler();
    }
}

unsigned threads() {
    return blockDim.x * blockDim.y * blockDim.z;
}

void make_fibers() {
    unsigned n = threads();
    if (grid.fibers.size() < n) {
        grid.fibers.resize(n);
    }
    for (unsigned t = 0; t < n; t++) {
        Fiber &fiber = grid.fibers[t];
        if (!fiber.stack) {
            fiber.stack.reset(new char[STACK]);
        }
        fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
        fiber.sanitizer = nullptr;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, serve, 0);
    }
}

// Puts 0 … n − 1 into the order of this launch.
void arrange(std::vector<unsigned> &turns, unsigned n, unsigned long long order) {
    turns.resize(n);
    for (unsigned i = 0; i < n; i++) {
        turns[i] = order == 1 ? n - 1 - i : i;
    }
    for (unsigned i = n; order > 1 && i > 1; i--) {
        grid.random = grid.random * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(turns[i - 1], turns[(grid.random >> 33) % i]);
    }
}

std::string describe(const Fiber &fiber) {
    char name[80];
    snprintf(name, sizeof name, "thread %u of block (%u, %u) ", fiber.index.x, blockIdx.x, blockIdx.y);
    switch (fiber.state) {
    case State::AtBarrier:
        return name + std::string("waits at ") + fiber.file + ":" + std::to_string(fiber.line);
    case State::AtShuffle:
        return name + std::string("waits in a shuffle");
    default:
        return name + std::string("has ended");
    }
}

void disagree(const Fiber &a, const Fiber &b) {
    if (grid.error.empty()) {
        grid.error = "threads that should meet do not: " + describe(a) + ", " + describe(b);
    }
}

// Lets those go on who have all met; false where nobody can.
bool release() {
    unsigned n = threads(), at_barrier = 0;
    bool any = false;
    for (unsigned w = 0; w * WARP < n; w++) {
        unsigned there = 0;
        for (unsigned t = w * WARP; t < n && t < (w + 1) * WARP; t++) {
            there += grid.fibers[t].state == State::AtShuffle;
        }
        for (unsigned t = w * WARP; there == WARP && t < (w + 1) * WARP; t++) {
            grid.fibers[t].state = State::Ready;
            any = true;
        }
    }
    for (unsigned t = 0; t < n; t++) {
        at_barrier += grid.fibers[t].state == State::AtBarrier;
    }
    if (at_barrier != n) {
        return any;
    }
    for (unsigned t = 0; t < n; t++) {
        Fiber &fiber = grid.fibers[t], &first = grid.fibers[0];
        if (fiber.line != first.line || strcmp(fiber.file, first.file) != 0) {
            disagree(first, fiber);
            return false;
        }
    }
    for (unsigned t = 0; t < n; t++) {
        grid.fibers[t].state = State::Ready;
    }
    return true;
}

void run_block(unsigned long long order) {
    unsigned n = threads();
    grid.shared.clear();
    for (unsigned t = 0; t < n; t++) {
        grid.fibers[t].state = State::Ready;
        grid.fibers[t].shuffles = 0;
    }
    grid.warps.resize((n + WARP - 1) / WARP);
    arrange(grid.turns, n, order);
    for (;;) {
        unsigned done = 0;
        for (unsigned t : grid.turns) {
            if (grid.fibers[t].state == State::Ready) {
                resume(grid.fibers[t]);
            }
            if (!grid.error.empty()) {
                return;
            }
        }
        const Fiber *waiting = nullptr, *other = &grid.fibers[0];
        for (unsigned t = 0; t < n; t++) {
            const Fiber &fiber = grid.fibers[t];
            done += fiber.state == State::Done;
            waiting = fiber.state != State::Done && !waiting ? &fiber : waiting;
        }
        if (done == n) {
            return;
        }
        if (!release()) {
            for (unsigned t = 0; t < n && other->state == waiting->state; t++) {
                other = &grid.fibers[t];
            }
            disagree(*waiting, *other);
            return;
        }
    }
}
} // namespace

namespace host {
const char *run(const Shape &shape, void (*body)(void *), void *with) {
    blockDim = shape.block;
    gridDim = shape.grid;
    grid.body = body;
    grid.with = with;
    grid.error.clear();
    grid.dynamic_bytes = shape.shared;
    grid.random = shape.order;
    make_fibers();
    std::vector<unsigned> blocks;
    arrange(blocks, gridDim.x * gridDim.y * gridDim.z, shape.order);
    for (unsigned b : blocks) {
        blockIdx = {b % gridDim.x, b / gridDim.x % gridDim.y, b / gridDim.x / gridDim.y};
        run_block(shape.order);
        if (!grid.error.empty()) {
            return grid.error.c_str();
        }
    }
    grid.shared.clear();
    return nullptr;
}

void sync_block(const char *file, int line) {
    Fiber *self = grid.now;
    self->file = file;
    self->line = line;
    self->state = State::AtBarrier;
    to_scheduler();
}

unsigned long long shuffle(unsigned mask, unsigned long long bits, unsigned source) {
    Fiber *self = grid.now;
    unsigned t = (unsigned)(self - &grid.fibers[0]);
    if (mask != 0xFFFFFFFFu) {
        grid.error = "a shuffle among a part of a warp, which stands in for nothing here";
    }
    unsigned long long *words = grid.warps[t / WARP].words[self->shuffles++ % 2];
    words[t % WARP] = bits;
    self->state = State::AtShuffle;
    to_scheduler();
    return words[source];
}

void *shared(const void *key, size_t bytes) {
    std::unique_ptr<char[]> &memory = grid.shared[key];
    if (!memory) {
        memory.reset(junk(bytes));
    }
    return memory.get();
}

void *dynamic_shared() {
    static const char key = 0;
    return shared(&key, grid.dynamic_bytes);
}
} // namespace host
