// Python expressions: arguments, views and calls as one statement of a program sees them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/python_names.h"
#include "magis/schedule/program.h"

namespace magis {

// "torch.ops.aten.mm.default" for "aten.mm".
std::string operator_path(std::string_view name);

// before + "(" + arguments + ")" + after; the arguments may be spread over several lines.
struct PythonCall {
  std::string before;
  std::vector<std::string> arguments;
  std::string after;
};

// A call whose result goes to `targets` (or to nobody), on one line, else the arguments on a
// second, else each on its own.
std::vector<std::string> call_lines(const std::string& targets, const PythonCall& call);

// Reads originals, or, given a run, the copies that it names.
class PythonExpressions {
 public:
  PythonExpressions(const Graph& graph, const PythonNames& names, const Statement* run = nullptr)
      : graph_(graph), names_(names), run_(run) {}

  // A variable, or a view of one written as method calls: "mm.view(8, 128, 256).permute(0, 2, 1)".
  std::string value(ValueId id) const;
  // Units times `length`'s coefficient: "128", or "64 * r1_length" where parts differ.
  std::string part_length(const PartLength& length) const;
  // Where the slice of that length begins: "64 * r1".
  std::string part_start(const PartLength& length) const;
  // "x.narrow(0, 64 * r1, 128)"
  std::string part(const std::string& base, const Call& call) const;
  // An item of a list of lists of lengths.
  std::string length_in(const Arg& shapes, std::size_t row, std::size_t dim) const;
  // The argument at `position` of the run.
  std::string argument_at(std::size_t position) const;
  // The right-hand side of the run.
  PythonCall call() const;

 private:
  std::string argument(const Arg& arg) const;
  std::string list(const ArgList& items) const;
  std::vector<std::string> arguments(const ArgList& args, const KeywordArgs& kwargs) const;
  ValueId viewed(const Value& value) const;
  std::string view(const Value& value) const;
  std::string slice(const std::string& base, const Call& call, std::size_t rank) const;
  std::string product(int64_t coefficient, const std::vector<LoopId>& loops) const;
  PythonCall bernoulli(const Call& call) const;
  CopyRef copy_read(TensorId tensor) const;

  const Graph& graph_;
  const PythonNames& names_;
  const Statement* run_;
};

}  // namespace magis
