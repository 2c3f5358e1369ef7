#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lexer.h"
#include "graph/printer.h"
#include "magis/base/hash.h"
#include "magis/simulate/measured_times.h"
#include "simulate/short_part.h"

namespace magis {
namespace {

// A key as it is spelled.
class Speller {
 public:
  explicit Speller(std::string& text) : text_(text) {}

  void word(std::string_view word) { text_ += word; }
  void mark(char mark) { text_ += mark; }
  void separator(std::string_view separator) { text_ += separator; }
  void operand(int64_t number) {
    mark('%');
    this->number(number);
  }
  void number(int64_t number) {
    std::array<char, 24> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    text_.append(buffer.data(), end.ptr);
  }
  void number(double number) { text_ += print_real(number); }
  void quoted(const std::string& string) { text_ += quote(string); }
  void type(const Type& type) {
    if (!type.defined) return word("none");
    word(to_text(type.dtype));
    lengths(type.shape, '[', ']');
    if (!is_contiguous(type)) lengths(type.strides, '{', '}');
  }

 private:
  template <class Numbers>
  void lengths(const Numbers& numbers, char open, char close) {
    mark(open);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i != 0) mark(',');
      number(numbers[i]);
    }
    mark(close);
  }

  std::string& text_;
};

// A number that two keys have in common only if they are spelled alike (but once in 2^64).
class Hasher {
 public:
  void word(std::string_view word) {
    mix(word.size());
    for (; word.size() > sizeof(uint64_t); word.remove_prefix(sizeof(uint64_t))) mix(bytes(word));
    mix(bytes(word));
  }
  void mark(char mark) { mix(static_cast<unsigned char>(mark)); }
  void separator(std::string_view separator) {
    if (separator.size() > 2) word(separator);  // between what are numbers of their own: nothing
  }
  void operand(int64_t number) { mix(~static_cast<uint64_t>(number)); }
  void number(int64_t number) { mix(static_cast<uint64_t>(number)); }
  void number(double number) {
    mark('.');
    mix(std::bit_cast<uint64_t>(number));
  }
  void quoted(const std::string& string) { word(string); }
  void type(const Type& type) {
    if (!type.defined) return mark('-');
    const bool contiguous = is_contiguous(type);
    mix(static_cast<uint64_t>(type.dtype) << 32 | type.shape.size() << 1 | contiguous);
    for (const int64_t length : type.shape) number(length);
    if (contiguous) return;
    for (const int64_t stride : type.strides) number(stride);
  }

  uint64_t hash() const { return mix64(hash_); }

 private:
  static uint64_t bytes(std::string_view word) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, word.data(), std::min(word.size(), sizeof(bytes)));
    return bytes;
  }
  void mix(uint64_t item) {
    hash_ = (hash_ ^ item) * 0x9fb21c651e98df25ULL;
    hash_ ^= hash_ >> 32;
  }

  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

template <class Sink>
class KeyWriter {
 public:
  KeyWriter(const Graph& graph, Sink sink, const ShortPart* part = nullptr)
      : graph_(graph), sink_(sink), part_(part) {
    operands_.reserve(8);
  }

  const Sink& sink() const { return sink_; }

  // Whether all shapes were known.
  bool complete() const { return complete_; }

  void write(OpId id) {
    const Operator& op = graph_.op(id);
    sink_.word(op.info->name);
    sink_.mark('(');
    std::string_view separator = "";
    for (const Arg& arg : op.args) {
      sink_.separator(separator);
      argument(arg);
      separator = ", ";
    }
    for (const auto& [keyword, arg] : op.kwargs) {
      sink_.separator(separator);
      sink_.word(keyword);
      sink_.mark('=');
      argument(arg);
      separator = ", ";
    }
    sink_.mark(')');
    if (const std::optional<int> overwritten = argument_that_dies(id)) {
      sink_.separator(" over ");
      print(int64_t{*overwritten});
    }
    separator = " : ";
    for (const ValueId result : op.results) {
      sink_.separator(separator);
      type_of(result);
      separator = ", ";
    }
    separator = " of ";
    for (const ValueId operand : operands_) {
      sink_.separator(separator);
      if (is_scalar(operand)) {
        sink_.word("scalar");
      } else {
        type_of(operand);
      }
      separator = ", ";
    }
  }

 private:
  // Values of run time that are no tensors; undefined results of operators have no type either.
  bool is_scalar(ValueId id) const {
    return !graph_.value(id).type.defined && graph_.value(id).kind == ValueKind::input;
  }

  // The argument that the operator overwrites in program order.
  std::optional<int> argument_that_dies(OpId op) const {
    for (const Graph::InPlaceChoice& choice : graph_.in_place_choices(op)) {
      const TensorId tensor = graph_.edge_tensor(choice.edge);
      const bool dies = graph_.edge_op(graph_.uses(tensor).back()) == op;
      if (dies && !graph_.tensor(tensor).is_output) return choice.argument;
    }
    return std::nullopt;
  }

  void argument(const Arg& arg) {
    std::visit([&](const auto& value) { print(value); }, arg.value);
  }
  void print(None) { sink_.word("none"); }
  void print(ValueId id) {
    if (!graph_.value(id).type.defined && !is_scalar(id)) {
      sink_.word("none");
      return;
    }
    const auto found = std::ranges::find(operands_, id);
    sink_.operand(found - operands_.begin());
    if (found == operands_.end()) operands_.push_back(id);
  }
  void print(int64_t number) { sink_.number(number); }
  void print(double number) { sink_.number(number); }
  void print(bool flag) { sink_.word(flag ? "true" : "false"); }
  void print(const std::string& string) { sink_.quoted(string); }
  void print(const Symbol& symbol) {
    sink_.word("torch.");
    sink_.word(symbol.word);
  }
  void print(const Device& device) {
    sink_.word("device(");
    sink_.quoted(device.name);
    sink_.mark(')');
  }
  void print(const PartLength& length) {
    print(part_ == nullptr ? length.value : part_->length(length));
  }
  void print(const ArgList& list) {
    sink_.mark('[');
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i != 0) sink_.separator(",");
      argument(list[i]);
    }
    sink_.mark(']');
  }

  void type_of(ValueId id) {
    if (part_ == nullptr) return sink_.type(graph_.value(id).type);
    const std::optional<Type> found = part_->type(id);
    complete_ = complete_ && found;
    if (found) sink_.type(*found);
  }
  const Graph& graph_;
  Sink sink_;
  const ShortPart* part_;  // null: full parts
  bool complete_ = true;
  std::vector<ValueId> operands_;  // in the order in which they are first named
};

}  // namespace

uint64_t call_hash(const Graph& graph, OpId op) {
  KeyWriter writer(graph, Hasher());
  writer.write(op);
  return writer.sink().hash();
}

std::optional<std::string> short_call_key(const Graph& graph, OpId op, const ShortPart& part) {
  std::string text;
  KeyWriter writer(graph, Speller(text), &part);
  writer.write(op);
  return writer.complete() ? std::optional(std::move(text)) : std::nullopt;
}

std::string call_key(const Graph& graph, OpId op) {
  std::string text;
  KeyWriter(graph, Speller(text)).write(op);
  return text;
}

}  // namespace magis
