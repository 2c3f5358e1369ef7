// Which Python variable holds what: one for every input and every copy of a tensor, one for every
// operator called.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "magis/schedule/program.h"

namespace magis {

// Names are the graph's where they may be: no keyword, no builtin, nothing that the module uses
// itself. A copy of `mm` is `mm_1`; where a name is taken, underscores are appended.
class PythonNames {
 public:
  PythonNames(const Graph& graph, const Program& program);

  // The variable of a result or an input; "_" for a copy that no statement reads.
  const std::string& of(CopyRef copy) const;
  // The view of the host's memory that holds a tensor while it is swapped.
  const std::string& on_host(TensorId tensor) const { return on_host_.at(tensor); }
  // The event that a stored or loaded copy has arrived.
  const std::string& of_arrival(CopyRef copy) const { return arrivals_.at(copy); }
  // Of a float given at run time.
  const std::string& of_scalar(ValueId scalar) const { return scalars_.at(scalar); }
  // The variable of a loop that holds where its current part begins, in units, and, where parts
  // differ, the one that holds how long it is.
  const std::string& of_loop(LoopId loop) const { return loops_[loop].start; }
  const std::string& of_part_length(LoopId loop) const { return loops_[loop].length; }
  // The module-level name bound to an operator ("aten.add.Tensor" -> "aten_add_Tensor"). Measured
  // with CPython 3.11, one thread: add on one element takes 2.5 us by such a name, 2.8 us as
  // aten.add.Tensor(...), of which 0.15 us go into looking up the attributes.
  const std::string& of_operator(std::string_view name) const {
    return operators_.find(name)->second;
  }
  // (module-level name, operator), by name.
  std::vector<std::pair<std::string, std::string>> operators() const;

 private:
  std::string unused(std::string name);
  void name_operators(const Graph& graph, const Program& program);
  void name_inputs(const Graph& graph);
  void name_loops(const Graph& graph);
  void name_results(const Graph& graph, const Program& program);
  void name_swaps(const Graph& graph, const Program& program);

  struct LoopNames {
    std::string start, length;
  };

  std::set<std::string> taken_;
  IdMap<LoopId, LoopNames> loops_;
  std::map<CopyRef, std::string> copies_;
  std::map<TensorId, std::string> on_host_;
  std::map<CopyRef, std::string> arrivals_;
  std::map<ValueId, std::string> scalars_;
  std::map<std::string, std::string, std::less<>> operators_;
};

// The operator that a run calls: its own, or the form that runs over an operand.
std::string_view called_operator(const Graph& graph, const Statement& run);
// The graph's own way to say a mask drawn as eager dropout draws it; PyTorch has no such operator
// to bind.
inline constexpr std::string_view kBernoulli = "magis.bernoulli";
inline constexpr std::string_view kPackBits = "magis.pack_bits";
inline constexpr std::string_view kUnpackBits = "magis.unpack_bits";
// Has a meaning of its own in the language, where PyTorch has no operator to bind.
bool is_own_operator(std::string_view name);

}  // namespace magis
