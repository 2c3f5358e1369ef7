#include "magis/codegen/python.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/python_copies.h"
#include "codegen/python_expressions.h"
#include "codegen/python_literals.h"
#include "codegen/python_loops.h"
#include "codegen/python_names.h"

namespace magis {
namespace {

// Where an operator comes from and why it runs: a comment line announces each change.
struct Origin {
  SiteId site;
  bool backward = false;
  bool again = false;
  bool operator==(const Origin&) const = default;
};

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

// Eight bytes of a bool mask, as one word, times a number that moves each one's lowest bit to a
// place of its own in the highest byte; and back.
constexpr std::string_view kPackBitsFunction = R"(

def pack_bits(mask):
    words = mask.view(torch.int64) * -0x7FBFDFEFF7FBFDFF
    words >>= 56
    return words.to(torch.uint8)
)";
constexpr std::string_view kUnpackBitsFunction = R"(

def unpack_bits(bits, dtype):
    words = bits.to(torch.int64, memory_format=torch.contiguous_format)
    words *= -0x7FBFDFEFF7FBFDFF
    words >>= 7
    words &= 0x0101010101010101
    return words.view(torch.bool).to(dtype)
)";

struct PythonText {
  std::string text;
  std::vector<int> lines;  // of the statements
};

class PythonModule {
 public:
  PythonModule(const Graph& graph, const Program& program)
      : graph_(graph), program_(program), names_(graph, program), copies_(graph, program, names_) {}

  PythonText text(const std::string& heading) {
    if (!heading.empty()) docstring(heading);
    text_ += "import torch\n";
    const auto operators = names_.operators();
    if (!operators.empty()) text_ += "\n";
    for (const auto& [python, name] : operators) {
      text_ += python + " = " + operator_path(name) + "\n";
    }
    const auto streams = copies_.module_lines();
    if (!streams.empty()) text_ += "\n";
    for (const std::string& code : streams) text_ += code + "\n";
    define_bits();
    begin_step();
    for (std::size_t s = 0; s < program_.statements.size(); ++s) {
      lines_.push_back(next_line());
      statement(s);
    }
    for (const std::string& code : copies_.last_lines()) line(code);
    return_outputs();
    return {std::move(text_), std::move(lines_)};
  }

 private:
  int next_line() {
    const auto from = text_.begin() + static_cast<std::ptrdiff_t>(counted_);
    line_ += static_cast<int>(std::count(from, text_.end(), '\n'));
    counted_ = text_.size();
    return line_;
  }

  void line(const std::string& code) { text_ += indent_ + code + "\n"; }

  void docstring(const std::string& heading) {
    text_ += "\"\"\"";
    for (const char c : heading) {
      if (c == '\\' || c == '"') text_ += '\\';
      text_ += c;
    }
    text_ += "\"\"\"\n\n";
  }

  // Functions for masks kept as bits, where the program has any.
  void define_bits() {
    const auto runs = [&](std::string_view name) {
      return std::ranges::any_of(program_.statements, [&](const Statement& statement) {
        return statement.kind == Statement::Kind::run && graph_.op(statement.op).info->name == name;
      });
    };
    if (runs(kPackBits)) text_ += kPackBitsFunction;
    if (runs(kUnpackBits)) text_ += kUnpackBitsFunction;
  }

  void begin_step() {
    if (copies_.any()) {
      text_ += "\n\ndef step(inputs, host):\n";
      line("# host: uint8[" + std::to_string(copies_.host_bytes()) +
           "], where tensors are kept that leave the device for a while");
    } else {
      text_ += "\n\ndef step(inputs):\n";
    }
    unpack_inputs();
    for (const std::string& code : copies_.first_lines()) line(code);
  }

  void unpack_inputs() {
    if (graph_.inputs().empty()) return;
    line("(");
    for (const Input& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      std::string comment(to_text(input.kind));
      // A constant's path is its data.
      if (input.kind != InputKind::constant) comment += " " + one_line(input.path);
      if (input.kind != InputKind::scalar) comment += ", " + to_text(value.type);
      line("    " + PythonExpressions(graph_, names_).value(input.value) + ",  # " + comment);
    }
    line(") = inputs");
  }

  void return_outputs() {
    if (graph_.outputs().empty()) {
      line("return ()");
      return;
    }
    line("return (");
    for (const Output& output : graph_.outputs()) {
      std::string comment(to_text(output.kind));
      if (!output.path.empty()) comment += " " + one_line(output.path);
      line("    " + PythonExpressions(graph_, names_).value(output.value) + ",  # " + comment);
    }
    line(")");
  }

  void statement(std::size_t s) {
    const Statement& statement = program_.statements[s];
    if (statement.kind == Statement::Kind::free) {
      add_freed(statement);
    } else if (statement.kind != Statement::Kind::run) {
      for (const std::string& code : copies_.lines(s)) line(code);
    } else if (graph_.bounded_loop(statement.op).valid()) {
      bound_loop(statement);
    } else if (const auto lines = result_lines(graph_, names_, statement); !lines.empty()) {
      announce(statement);
      for (const std::string& code : lines) line(code);
    } else {
      announce(statement);
      const PythonCall call = PythonExpressions(graph_, names_, &statement).call();
      for (const std::string& code : call_lines(assignment_targets(statement), call)) line(code);
      if (statement.over >= 0) dead_.push_back(names_.of(overwritten(statement)));
    }
    const bool more = s + 1 < program_.statements.size() &&
                      program_.statements[s + 1].kind == Statement::Kind::free;
    if (!more) release();
  }

  void bound_loop(const Statement& run) {
    const Loop& loop = graph_.loop(graph_.bounded_loop(run.op));
    if (run.op == loop.end) {
      indent_.resize(indent_.size() - 4);
      origin_ = {};
      text_ += "\n";
      return;
    }
    text_ += "\n";
    line("# " + parts_text(loop));
    const LoopHead head = loop_head(graph_, names_, run);
    for (std::size_t i = 0; i < head.lines.size(); ++i) {
      if (i == head.body_line) indent_ += "    ";
      line(head.lines[i]);
    }
    if (head.body_line == head.lines.size()) indent_ += "    ";
    origin_ = {};
  }

  // "8 units in parts of 2"
  static std::string parts_text(const Loop& loop) {
    const std::string length = std::to_string(loop.length.value);
    return length + " units in parts of " + std::to_string(loop.part) +
           (loop.is_even() ? "" : ", the last one may be shorter");
  }

  void add_freed(const Statement& statement) {
    // `_` goes right after its run, whatever the program says.
    for (const CopyRef& copy : statement.copies) {
      if (names_.of(copy) != "_") dead_.push_back(names_.of(copy));
    }
  }

  CopyRef overwritten(const Statement& run) const {
    const auto position = static_cast<std::size_t>(run.over);
    return {graph_.reads(run.op)[position], run.operand_copies[position]};
  }

  void announce(const Statement& run) {
    const Operator& op = graph_.op(run.op);
    const Origin origin{op.site, op.backward, run.copy != 0};
    if (origin == origin_) return;
    origin_ = origin;
    std::string comment = "#";
    if (op.site.valid()) {
      const Site& site = graph_.sites()[op.site];
      if (!site.module.empty()) comment += " " + one_line(site.module) + " ";
      if (!site.source.empty()) comment += " (" + one_line(site.source) + ") ";
    }
    comment += op.backward ? " backward" : " forward";
    if (origin.again) comment += ", computed again";
    text_ += "\n";
    line(comment);
  }

  // "a, _, b"; empty if nobody reads a result: the call then stands alone and leaves nothing
  // behind.
  std::string assignment_targets(const Statement& run) {
    std::vector<std::string> targets;
    bool holds_memory = false;  // `_` does
    for (ValueId result : graph_.op(run.op).results) {
      const TensorId tensor = graph_.value(result).tensor;
      targets.push_back(tensor.valid() ? names_.of({tensor, run.copy}) : "_");
      if (targets.back() == "_") holds_memory = tensor.valid();
    }
    if (std::ranges::count(targets, "_") == std::ssize(targets)) return "";
    if (holds_memory) dead_.push_back("_");
    return comma_separated(targets);
  }

  void release() {
    if (!dead_.empty()) line("del " + comma_separated(dead_));
    dead_.clear();
  }

  const Graph& graph_;
  const Program& program_;
  const PythonNames names_;
  PythonCopies copies_;
  Origin origin_;
  std::vector<std::string> dead_;  // names to delete before the next run
  std::string indent_ = "    ";
  std::string text_;
  std::vector<int> lines_;  // at which each statement begins
  int line_ = 1;            // the one after text_[:counted_]
  std::size_t counted_ = 0;
};

}  // namespace

std::string emit_python(const Graph& graph, const Program& program, const std::string& heading) {
  return PythonModule(graph, program).text(heading).text;
}

std::vector<int> python_lines(const Graph& graph, const Program& program,
                              const std::string& heading) {
  return PythonModule(graph, program).text(heading).lines;
}

}  // namespace magis
