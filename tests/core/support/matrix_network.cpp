#include "support/matrix_network.h"

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"

namespace magis::test {
namespace {

using Kind = MatrixNetwork::Kind;
using Item = MatrixNetwork::Item;

Type matrix(int64_t rows, int64_t columns) {
  Type type{.dtype = DType::f32, .shape = {rows, columns}};
  type.strides = contiguous_strides(type.shape);
  type.storage = minimal_storage(type);
  return type;
}

Type scalar() {
  Type type{.dtype = DType::f32, .shape = {}};
  type.storage = minimal_storage(type);
  return type;
}

ArgList transposed() {
  ArgList axes;
  axes.push_back({int64_t{1}});
  axes.push_back({int64_t{0}});
  return axes;
}

const char* operator_name(Kind kind) {
  switch (kind) {
    case Kind::mm:
      return "aten.mm";
    case Kind::add:
      return "aten.add.Tensor";
    case Kind::relu:
      return "aten.relu";
    case Kind::threshold_backward:
      return "aten.threshold_backward";
    case Kind::scale:
      return "aten.mul.Scalar";
    case Kind::square:
      return "aten.mul.Tensor";
    case Kind::sum:
      return "aten.sum";
    case Kind::cat:
      return "aten.cat";
    case Kind::slice:
      return "aten.slice.Tensor";
    case Kind::permute:
      return "aten.permute";
    case Kind::input:
    case Kind::weight:
      break;
  }
  throw std::logic_error("no operator");
}

class Converter {
 public:
  explicit Converter(const MatrixNetwork& network)
      : network_(network), values_(network.place.size()) {}

  Graph convert() {
    builder_.set_device("cpu");
    for (const Item& item : network_.items) {
      if (is_source(item)) add_source(item);
    }
    for (const Item& item : network_.items) {
      if (!is_source(item)) add_call(item);
    }
    for (std::size_t i = 0; i < network_.outputs.size(); ++i) {
      const int id = network_.outputs[i];
      const bool loss = network_.item(id).kind == Kind::sum;
      builder_.add_output(loss ? OutputKind::loss : OutputKind::aux,
                          loss ? "" : "out." + std::to_string(i), value(id));
    }
    return std::move(builder_).build();
  }

 private:
  static bool is_source(const Item& item) {
    return item.kind == Kind::input || item.kind == Kind::weight;
  }
  static std::string name(const Item& item) { return "n" + std::to_string(item.id); }
  ValueId& value(int id) { return values_[static_cast<std::size_t>(id)]; }

  void add_source(const Item& item) {
    const InputKind kind = item.kind == Kind::input ? InputKind::batch : InputKind::param;
    value(item.id) =
        builder_.add_input(kind, name(item), name(item), matrix(item.rows, item.columns));
  }

  void add_call(const Item& item) {
    Call call{&op_info(operator_name(item.kind)), {}, {}};
    ArgList operands;
    for (const int operand : item.operands) operands.push_back({value(operand)});
    if (item.kind == Kind::cat) {
      call.args.push_back({std::move(operands)});
    } else {
      call.args = std::move(operands);
    }
    switch (item.kind) {
      case Kind::threshold_backward:
        call.args.push_back({int64_t{0}});
        break;
      case Kind::scale:
        call.args.push_back({2.0});
        break;
      case Kind::square:
        call.args.push_back({value(item.operands[0])});
        break;
      case Kind::cat:
        call.args.push_back({int64_t{item.axis}});
        break;
      case Kind::slice:
        for (const int64_t number : {int64_t{item.axis}, item.begin, item.end}) {
          call.args.push_back({number});
        }
        break;
      case Kind::permute:
        call.args.push_back({transposed()});
        break;
      default:
        break;
    }
    if (item.kind == Kind::slice || item.kind == Kind::permute) {
      const Type& base = builder_.value(value(item.operands[0])).type;
      const Type type = std::get<Type>(derive_view(call, base));
      value(item.id) = builder_.add_view(name(item), std::move(call), type);
      return;
    }
    const Type type = item.kind == Kind::sum ? scalar() : matrix(item.rows, item.columns);
    Operator op;
    static_cast<Call&>(op) = std::move(call);
    value(item.id) = builder_.add_operator(std::move(op), {name(item)}, {type})[0];
  }

  const MatrixNetwork& network_;
  GraphBuilder builder_;
  std::vector<ValueId> values_;  // by item id
};

}  // namespace

int MatrixNetwork::add_source(Kind kind, int64_t rows, int64_t columns) {
  const int id = static_cast<int>(place.size());
  place.push_back(static_cast<int>(items.size()));
  items.push_back({.id = id, .kind = kind, .operands = {}, .rows = rows, .columns = columns});
  return id;
}

int MatrixNetwork::add(Kind kind, std::vector<int> operands, int axis, int64_t begin, int64_t end) {
  int64_t rows = item(operands[0]).rows;
  int64_t columns = item(operands[0]).columns;
  if (kind == Kind::mm) columns = item(operands[1]).columns;
  if (kind == Kind::permute) std::swap(rows, columns);
  if (kind == Kind::slice) (axis == 0 ? rows : columns) = end - begin;
  if (kind == Kind::cat) {
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const Item& next = item(operands[i]);
      (axis == 0 ? rows : columns) += axis == 0 ? next.rows : next.columns;
    }
  }
  const int id = add_source(kind, rows, columns);
  Item& added = items.back();
  added.operands = std::move(operands);
  added.axis = axis;
  added.begin = begin;
  added.end = end;
  return id;
}

void MatrixNetwork::put_in_order() {
  std::vector<char> wanted(place.size(), 0);
  const std::function<void(int)> want = [&](int id) {
    if (std::exchange(wanted[static_cast<std::size_t>(id)], 1)) return;
    for (const int operand : item(id).operands) want(operand);
  };
  for (const int output : outputs) want(output);

  std::vector<Item> sorted;
  std::vector<int> sorted_place(place.size(), -1);
  const std::function<void(int)> emit = [&](int id) {
    if (sorted_place[static_cast<std::size_t>(id)] >= 0) return;
    for (const int operand : item(id).operands) emit(operand);
    sorted_place[static_cast<std::size_t>(id)] = static_cast<int>(sorted.size());
    sorted.push_back(item(id));
  };
  for (const Item& next : items) {
    if (wanted[static_cast<std::size_t>(next.id)]) emit(next.id);
  }
  items = std::move(sorted);
  place = std::move(sorted_place);
}

Graph to_graph(const MatrixNetwork& network) { return Converter(network).convert(); }

}  // namespace magis::test
