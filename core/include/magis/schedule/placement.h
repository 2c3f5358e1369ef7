// Where copies to the host and back stand in a schedule (paper section 6.2): stores as early as
// possible, loads as late as just hides them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace magis {

// Times are in any unit, as whole numbers.
struct CopyJob {
  int made = 0;       // position of the operator after which the store is issued
  int free_from = 0;  // the first position where the device may do without the tensor
  int use = 0;        // position of the operator that needs it again
  int64_t store = 0;  // time of the store; 0: the host has it already
  int64_t load = 0;   // time of the load
};

struct CopyPlacement {
  bool hidden = false;
  int release = 0;  // in front of the operator at this position the device lets go of the tensor
  int load = 0;     // in front of this one it takes memory again, and the load is issued
  int64_t store_end = 0;   // when its store is through
  int64_t load_start = 0;  // when its load starts at the latest
};

// `start[k]` is when the operator at position k starts if nothing waits, with one more entry for
// the end; `border[k]` says whether gaps may begin and end in front of position k.
//
// A placement is *hidden* if the operators start at these times all the same. Stores go in order of
// `made`, loads in order of `use` (ties: as given), as the engines serve them. Of all hidden
// placements this is, for every job at once, the one with the earliest release and the latest load:
//   - A store that is issued at its producer's end starts when those before it are through. Issuing
//     one later delays it and those behind it, so no release can be earlier than the end of its
//     store in this schedule; waiting for it there costs nothing.
//   - Backwards from the last use, a load must end before its use and before the load behind it
//     starts. By induction none can start later; issued earlier, it takes memory earlier.
// A job that is hidden in no placement says so: between the two there is not enough time, given the
// other jobs. O(jobs log jobs + jobs log positions).
std::vector<CopyPlacement> place_copies(std::span<const int64_t> start,
                                        std::span<const uint8_t> border,
                                        std::span<const CopyJob> jobs);

}  // namespace magis
