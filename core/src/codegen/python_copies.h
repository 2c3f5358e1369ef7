// Python statements for tensors that leave for the host and come back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/python_names.h"
#include "magis/schedule/host_pool.h"
#include "magis/schedule/program.h"

namespace magis {

// On CUDA each direction has a stream of its own. A copy's stream waits for what the copy needs,
// copies, and records an event; where the program awaits the copy, the computing stream waits for
// that event. So all memory is allocated and freed on the computing stream alone, which has waited
// by then. Elsewhere a copy is through when its statement is.
class PythonCopies {
 public:
  PythonCopies(const Graph& graph, const Program& program, const PythonNames& names);

  // Whether the step takes memory on the host, and how much.
  bool any() const { return stores_any_; }
  Bytes host_bytes() const { return pool_.bytes; }
  // What the module defines once for all steps, and what a step begins with.
  std::vector<std::string> module_lines() const;
  std::vector<std::string> first_lines() const;
  // For a store, a load or an await; to be called in program order.
  std::vector<std::string> lines(std::size_t statement);
  // Waits for what nobody awaited: no copy outlives the step.
  std::vector<std::string> last_lines() const;

 private:
  std::vector<std::string> store(CopyRef copy);
  std::vector<std::string> load(CopyRef copy, std::size_t statement);
  std::vector<std::string> copy_bytes(CopyRef copy, bool to_host);
  std::vector<std::string> wait_for(CopyRef copy);
  // The variable of what is computed first from a loaded copy; empty if there is none.
  std::string reader_of(CopyRef copy, std::size_t after) const;

  struct OnItsWay {
    bool to_host;
    std::string event;  // that it has arrived
  };

  const Graph& graph_;
  const Program& program_;
  const PythonNames& names_;
  const HostPool pool_;
  const bool stores_any_;
  const bool on_streams_;
  std::map<CopyRef, OnItsWay> on_their_way_;  // nothing where copies are not on streams
};

}  // namespace magis
