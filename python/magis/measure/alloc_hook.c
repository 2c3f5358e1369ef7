// Preloaded into a Linux process (LD_PRELOAD), counts what PyTorch's CPU allocator holds, to the
// byte.
//
// c10::alloc_cpu gets every CPU tensor's storage from posix_memalign, and asks for exactly as many
// bytes as the storage has. So a block belongs to a tensor, or to scratch that a kernel asked of
// the same allocator, exactly if the call came from libc10: the return address tells. What other
// libraries take with an alignment of 64 or more (oneDNN's own buffers) is counted apart as
// "other".
//
// Kernel scratch. Between magis_hook_enter_kernel and magis_hook_leave_kernel one kernel runs. A
// block allocated in between is a result if it is still there when the kernel leaves, and scratch
// if it is not. No thread needs to be named: workers inside a kernel allocate scratch only. With
// results counted from the kernel's start, as a plan does,
//
//   tensor peak = max over kernels of (live on entry + its results)
//   scratch     = highest live inside the kernel - (live on entry + its results)
//
// A log, while there is one, has every block that comes or goes, with the time on the clock that
// Python's time.perf_counter_ns reads.
//
// Blocks live in a hash table of our own in mapped pages, for the functions that it would otherwise
// call are the ones it watches. Everything is under one lock, which is held across fork.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum owner { OWNER_UNKNOWN = 0, OWNER_C10, OWNER_OTHER };

struct block {
  uintptr_t address;  // 0: empty slot
  uint64_t bytes;
  uint32_t kernel;  // serial number of the kernel that allocated it; 0: none
  uint32_t owner;
};

// What Python reads in one call; all in bytes but `allocations`.
struct magis_hook_state {
  int64_t live;         // c10 blocks held now
  int64_t peak;         // most since the last reset
  int64_t tensor_peak;  // most since the last reset, kernel scratch left out
  int64_t allocations;  // c10 blocks allocated since the last reset
  int64_t other_live;
  int64_t other_peak;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct magis_hook_state state;

struct magis_hook_change {
  int64_t nanoseconds;
  uint64_t address;
  int64_t bytes;  // below 0: given back
  int64_t owner;
};

static struct magis_hook_change* change_log;  // the caller's memory; null: nothing is logged
static int64_t log_capacity;
static int64_t logged;  // more than the capacity: so many did not fit

static struct block* table;
static size_t capacity;  // a power of two
static size_t used;

static int in_kernel;
static uint32_t kernel_serial;
static int64_t kernel_entry;    // live when the kernel started
static int64_t kernel_peak;     // highest live since
static int64_t kernel_results;  // bytes of this kernel's blocks that are still there

static int (*next_posix_memalign)(void**, size_t, size_t);
static void* (*next_aligned_alloc)(size_t, size_t);
static void* (*next_memalign)(size_t, size_t);
static void (*next_free)(void*);

static void resolve(void) {
  next_free = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  next_aligned_alloc = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  next_memalign = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
  next_posix_memalign = (int (*)(void**, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
}

static void lock_for_fork(void) { pthread_mutex_lock(&lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&lock); }

__attribute__((constructor)) static void start(void) {
  resolve();
  pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

// ---- the table: open addressing, linear probing, deletion by shifting back ----

static size_t slot_of(uintptr_t address) {
  return (size_t)(((uint64_t)address >> 6) * 0x9E3779B97F4A7C15ull >> 20) & (capacity - 1);
}

static size_t find(uintptr_t address) {  // its slot, or the empty one where it would go
  size_t i = slot_of(address);
  while (table[i].address != 0 && table[i].address != address) i = (i + 1) & (capacity - 1);
  return i;
}

static void grow(void) {
  struct block* old = table;
  const size_t old_capacity = capacity;
  const size_t wanted = old_capacity ? 2 * old_capacity : 1u << 14;
  void* pages = mmap(NULL, wanted * sizeof(struct block), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) abort();  // a count that silently misses blocks would be worse
  table = pages;
  capacity = wanted;
  for (size_t i = 0; i < old_capacity; ++i) {
    if (old[i].address != 0) table[find(old[i].address)] = old[i];
  }
  if (old) munmap(old, old_capacity * sizeof(struct block));
}

static void erase(size_t hole) {
  size_t i = hole;
  for (;;) {
    i = (i + 1) & (capacity - 1);
    if (table[i].address == 0) break;
    const size_t home = slot_of(table[i].address);
    // Move it back unless its home lies in (hole, i].
    const int stays = hole <= i ? (hole < home && home <= i) : (hole < home || home <= i);
    if (stays) continue;
    table[hole] = table[i];
    hole = i;
  }
  table[hole].address = 0;
  --used;
}

// ---- the account; all under the lock ----

static void log_change(const struct block* b, int sign) {
  if (!change_log) return;
  if (logged < log_capacity) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    change_log[logged] =
        (struct magis_hook_change){.nanoseconds = now.tv_sec * 1000000000ll + now.tv_nsec,
                                   .address = b->address,
                                   .bytes = sign * (int64_t)b->bytes,
                                   .owner = b->owner};
  }
  ++logged;
}

static void forget(size_t slot) {
  const struct block b = table[slot];
  log_change(&b, -1);
  if (b.owner == OWNER_C10) {
    state.live -= (int64_t)b.bytes;
    if (in_kernel && b.kernel == kernel_serial) kernel_results -= (int64_t)b.bytes;
  } else {
    state.other_live -= (int64_t)b.bytes;
  }
  erase(slot);
}

static void count(const struct block* b) {
  log_change(b, 1);
  if (b->owner != OWNER_C10) {
    state.other_live += (int64_t)b->bytes;
    if (state.other_live > state.other_peak) state.other_peak = state.other_live;
    return;
  }
  state.live += (int64_t)b->bytes;
  ++state.allocations;
  if (state.live > state.peak) state.peak = state.live;
  if (in_kernel) {
    kernel_results += (int64_t)b->bytes;
    if (state.live > kernel_peak) kernel_peak = state.live;
  } else if (state.live > state.tensor_peak) {
    state.tensor_peak = state.live;
  }
}

static void record(void* address, size_t bytes, enum owner owner) {
  pthread_mutex_lock(&lock);
  if (2 * (used + 1) > capacity) grow();
  size_t slot = find((uintptr_t)address);
  if (table[slot].address != 0) {  // released behind our back, by realloc
    forget(slot);
    slot = find((uintptr_t)address);
  }
  table[slot] = (struct block){.address = (uintptr_t)address,
                               .bytes = bytes,
                               .kernel = in_kernel ? kernel_serial : 0,
                               .owner = owner};
  ++used;
  count(&table[slot]);
  pthread_mutex_unlock(&lock);
}

// ---- who called ----

#define CALLERS 256
static _Atomic uintptr_t
    callers[CALLERS];  // address * 4 + owner: one word, so that it is read whole

static enum owner owner_of(const void* caller) {
  const uintptr_t address = (uintptr_t)caller;
  _Atomic uintptr_t* entry = &callers[(address >> 2) % CALLERS];
  const uintptr_t known = atomic_load_explicit(entry, memory_order_relaxed);
  if (known >> 2 == (address & UINTPTR_MAX >> 2)) return (enum owner)(known & 3);
  Dl_info info;
  enum owner owner = OWNER_OTHER;
  if (dladdr(caller, &info) && info.dli_fname) {
    const char* slash = strrchr(info.dli_fname, '/');
    const char* file = slash ? slash + 1 : info.dli_fname;
    if (strncmp(file, "libc10.", 7) == 0) owner = OWNER_C10;
  }
  atomic_store_explicit(entry, address << 2 | (uintptr_t)owner, memory_order_relaxed);
  return owner;
}

// ---- the watched functions; each takes its own return address ----

#define WATCHED 64  // c10 aligns to 64 and more; frees of anything less aligned need no look-up

EXPORT int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (!next_posix_memalign) resolve();
  const int failed = next_posix_memalign(out, alignment, bytes);
  if (!failed && *out && alignment >= WATCHED) {
    record(*out, bytes, owner_of(__builtin_return_address(0)));
  }
  return failed;
}

EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  if (!next_aligned_alloc) resolve();
  void* p = next_aligned_alloc(alignment, bytes);
  if (p && alignment >= WATCHED) record(p, bytes, owner_of(__builtin_return_address(0)));
  return p;
}

EXPORT void* memalign(size_t alignment, size_t bytes) {
  if (!next_memalign) resolve();
  void* p = next_memalign(alignment, bytes);
  if (p && alignment >= WATCHED) record(p, bytes, owner_of(__builtin_return_address(0)));
  return p;
}

EXPORT void free(void* p) {
  if (!next_free) resolve();
  if (p && ((uintptr_t)p & (WATCHED - 1)) == 0) {
    const int saved = errno;
    pthread_mutex_lock(&lock);
    if (used != 0) {
      const size_t slot = find((uintptr_t)p);
      if (table[slot].address != 0) forget(slot);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
  }
  next_free(p);
}

// ---- what Python calls ----

EXPORT void magis_hook_reset(void) {
  pthread_mutex_lock(&lock);
  state.peak = state.tensor_peak = state.live;
  state.other_peak = state.other_live;
  state.allocations = 0;
  pthread_mutex_unlock(&lock);
}

EXPORT void magis_hook_read(struct magis_hook_state* out) {
  pthread_mutex_lock(&lock);
  *out = state;
  pthread_mutex_unlock(&lock);
}

// Starts a log in the caller's memory; null ends it.
EXPORT void magis_hook_log(struct magis_hook_change* changes, int64_t capacity) {
  pthread_mutex_lock(&lock);
  change_log = changes;
  log_capacity = capacity;
  logged = 0;
  pthread_mutex_unlock(&lock);
}

// Changes since the log was started, those that did not fit included.
EXPORT int64_t magis_hook_logged(void) {
  pthread_mutex_lock(&lock);
  const int64_t count = logged;
  pthread_mutex_unlock(&lock);
  return count;
}

// Kernels do not nest: the caller brackets one at a time, and only the thread that runs it.
EXPORT void magis_hook_enter_kernel(void) {
  pthread_mutex_lock(&lock);
  in_kernel = 1;
  ++kernel_serial;
  kernel_entry = kernel_peak = state.live;
  kernel_results = 0;
  pthread_mutex_unlock(&lock);
}

// Returns the kernel's scratch and writes the bytes of its results, both of c10 blocks.
EXPORT int64_t magis_hook_leave_kernel(int64_t* results) {
  pthread_mutex_lock(&lock);
  in_kernel = 0;
  const int64_t tensors = kernel_entry + kernel_results;
  if (tensors > state.tensor_peak) state.tensor_peak = tensors;
  const int64_t scratch = kernel_peak > tensors ? kernel_peak - tensors : 0;
  *results = kernel_results;
  pthread_mutex_unlock(&lock);
  return scratch;
}
