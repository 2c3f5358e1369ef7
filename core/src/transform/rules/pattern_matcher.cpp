#include "transform/rules/pattern_matcher.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "magis/graph/builder.h"
#include "transform/rules/side_conditions.h"
#include "transform/rules/term_reading.h"

namespace magis {
namespace {

struct Goal {
  int node;
  ValueId value;
};

std::vector<int> nodes_read(const PatternNode& node) {
  std::vector<int> read;
  for (const PatternArg& arg : node.args) {
    if (arg.node >= 0) read.push_back(arg.node);
    for (const ListItem& item : arg.items) {
      if (item.node >= 0) read.push_back(item.node);
    }
  }
  return read;
}

// Whether the operators are those of the pattern, whatever shapes and names say: most places fail
// here, and it costs nothing.
bool has_operators(const Rule& rule, int id, const TermGraph& terms, ValueId value) {
  const PatternNode& node = rule.nodes[static_cast<std::size_t>(id)];
  if (node.word == nullptr) return true;
  const TermId producer = terms.producer(value);
  if (!producer.valid() || !node.word->matches(terms.term(producer).info)) return false;
  const ArgList& args = terms.term(producer).args;
  const auto fits = [&](std::size_t wanted, std::size_t given) {
    if (given >= args.size()) return true;
    const auto* operand = std::get_if<ValueId>(&args[given].value);
    if (node.word->args[wanted] != ArgKind::tensor) return true;
    return operand != nullptr && has_operators(rule, node.args[wanted].node, terms, *operand);
  };
  if (node.word->commutative) return (fits(0, 0) && fits(1, 1)) || (fits(0, 1) && fits(1, 0));
  for (std::size_t a = 0; a < node.word->args.size(); ++a) {
    if (!fits(a, a)) return false;
  }
  return true;
}

class Solver {
 public:
  Solver(const Rule& rule, const std::vector<int>& tops, const TermGraph& terms)
      : rule_(rule), tops_(tops), terms_(terms) {}

  void solve(std::vector<Goal> goals, Binding binding) {
    while (!goals.empty()) {
      const Goal goal = goals.back();
      goals.pop_back();
      if (!meet(goal, goals, binding)) return;
    }
    for (int top : tops_) {
      if (value_of(top, binding).valid()) continue;
      for (ValueId candidate : candidates(top, binding)) solve({{top, candidate}}, binding);
      return;
    }
    if (holds(rule_, terms_, binding)) found.push_back(std::move(binding));
  }

  std::vector<Binding> found;

 private:
  static ValueId value_of(int node, const Binding& binding) {
    return binding.nodes[static_cast<std::size_t>(node)];
  }
  const PatternNode& pattern(int node) const { return rule_.nodes[static_cast<std::size_t>(node)]; }

  // Binds a node; what it reads becomes goals.
  bool meet(const Goal& goal, std::vector<Goal>& goals, Binding& binding) {
    ValueId& bound = binding.nodes[static_cast<std::size_t>(goal.node)];
    if (bound.valid()) return bound == goal.value;
    const PatternNode& node = pattern(goal.node);
    const Type& type = terms_.type(goal.value);
    if (!type.defined) return false;
    bound = goal.value;
    if (node.word == nullptr) return binding.symbols.unify(node.shape, type.shape, rule_.symbols);
    const TermId producer = terms_.producer(goal.value);
    if (!producer.valid()) return false;
    const Term& term = terms_.term(producer);
    if (!node.word->matches(term.info) || term.results.size() != 1) return false;
    if (!binding.symbols.unify(node.shape, type.shape, rule_.symbols)) return false;
    return meet_arguments(node, term, goals, binding);
  }

  bool meet_arguments(const PatternNode& node, const Term& term, std::vector<Goal>& goals,
                      Binding& binding) {
    const std::vector<ArgKind>& kinds = node.word->args;
    std::optional<ArgList> whole;
    if (term.info->name == "aten.slice.Tensor") {
      const std::optional<Slice> slice = slice_of(terms_, term);
      if (!slice) return false;
      whole = ArgList{{slice->base}, {slice->dim}, {slice->begin}, {slice->end}};
    }
    const ArgList& args = whole ? *whole : term.args;
    if (args.size() > kinds.size() || !meet_keywords(node, term, binding)) return false;
    if (node.word->commutative) {
      if (!is_tensor(args[0]) || !is_tensor(args[1])) return false;
      std::vector<Goal> swapped = goals;
      swapped.push_back({node.args[0].node, std::get<ValueId>(args[1].value)});
      swapped.push_back({node.args[1].node, std::get<ValueId>(args[0].value)});
      solve(std::move(swapped), binding);
    }
    for (std::size_t a = 0; a < kinds.size(); ++a) {
      const Arg missing;
      const Arg& arg = a < args.size() ? args[a] : missing;
      if (!meet_argument(kinds[a], node, node.args[a], arg, term, goals, binding)) return false;
    }
    return true;
  }

  static bool is_tensor(const Arg& arg) { return std::holds_alternative<ValueId>(arg.value); }

  bool meet_keywords(const PatternNode& node, const Term& term, Binding& binding) const {
    if (!node.word->scales) return term.kwargs == node.word->keywords;
    double beta = 1;
    double alpha = 1;
    for (const auto& [name, arg] : term.kwargs) {
      const std::optional<double> number = number_value(arg);
      if (!number || (name != "beta" && name != "alpha")) return false;
      (name == "beta" ? beta : alpha) = *number;
    }
    return meet_number(node.beta, beta, binding) && meet_number(node.alpha, alpha, binding);
  }

  static bool meet_number(const NumberExpr& expr, double number, Binding& binding) {
    if (expr.kind == NumberExpr::Kind::constant) return expr.constant == number;
    std::optional<double>& bound = binding.numbers[static_cast<std::size_t>(expr.variable)];
    if (!bound) bound = number;
    return *bound == number;
  }

  bool meet_argument(ArgKind kind, const PatternNode& node, const PatternArg& wanted,
                     const Arg& arg, const Term& term, std::vector<Goal>& goals, Binding& binding) {
    switch (kind) {
      case ArgKind::tensor:
        if (!is_tensor(arg)) return false;
        goals.push_back({wanted.node, std::get<ValueId>(arg.value)});
        return true;
      case ArgKind::tensors:
        return meet_list(node, wanted.items, arg, term, goals, binding);
      case ArgKind::number: {
        const std::optional<double> number = number_value(arg);
        return number && meet_number(wanted.number, *number, binding);
      }
      case ArgKind::length: {
        const std::optional<int64_t> length = integer_value(arg);
        return length && binding.symbols.unify(wanted.length, *length);
      }
      case ArgKind::dim:
      case ArgKind::dims:
        return meet_dims(wanted.dims, arg, first_operand_rank(term));
      case ArgKind::shape:
        return true;  // the result's shape says it
      case ArgKind::flag: {
        const auto* flag = std::get_if<bool>(&arg.value);
        return (flag != nullptr && *flag) == wanted.flag;
      }
      case ArgKind::attribute:
        return meet_attribute(wanted, arg, binding);
    }
    return false;
  }

  int64_t first_operand_rank(const Term& term) const {
    int64_t rank = 0;
    bool first = true;
    for_each_value(term, [&](ValueId id) {
      if (std::exchange(first, false)) rank = static_cast<int64_t>(terms_.type(id).shape.size());
    });
    return rank;
  }

  static bool meet_dims(const std::vector<int64_t>& wanted, const Arg& arg, int64_t rank) {
    std::vector<int64_t> dims;
    if (const auto* list = std::get_if<ArgList>(&arg.value)) {
      for (const Arg& item : *list) dims.push_back(integer_value(item).value_or(rank));
    } else {
      dims.push_back(integer_value(arg).value_or(rank));
    }
    const auto same = [&](int64_t a, int64_t b) {
      return (a < 0 ? a + rank : a) == (b < 0 ? b + rank : b);
    };
    return std::ranges::equal(dims, wanted, same);
  }

  static bool meet_attribute(const PatternArg& wanted, const Arg& arg, Binding& binding) {
    if (wanted.attribute < 0) return arg == wanted.literal;
    std::optional<Arg>& bound = binding.attributes[static_cast<std::size_t>(wanted.attribute)];
    if (!bound) bound = arg;
    return *bound == arg;
  }

  // Each sequence takes some of the items; every way of sharing them out is looked at.
  bool meet_list(const PatternNode& node, const std::vector<ListItem>& wanted, const Arg& arg,
                 const Term& term, std::vector<Goal>& goals, Binding& binding) {
    const auto* list = std::get_if<ArgList>(&arg.value);
    if (list == nullptr || !std::ranges::all_of(*list, is_tensor)) return false;
    // The dimension must fit before sequences are given shapes.
    const int64_t rank = first_operand_rank(term);
    if (!meet_dims(node.args[1].dims, term.args.size() > 1 ? term.args[1] : Arg{{int64_t{0}}},
                   rank)) {
      return false;
    }
    std::vector<ValueId> items;
    for (const Arg& item : *list) items.push_back(std::get<ValueId>(item.value));
    std::vector<std::pair<Binding, std::vector<Goal>>> ways;
    share_out(wanted, 0, items, 0, node.args[1].dims[0], binding, goals, ways);
    if (ways.empty()) return false;
    for (std::size_t w = 1; w < ways.size(); ++w) {
      solve(std::move(ways[w].second), std::move(ways[w].first));
    }
    binding = std::move(ways.front().first);
    goals = std::move(ways.front().second);
    return true;
  }

  void share_out(const std::vector<ListItem>& wanted, std::size_t w,
                 const std::vector<ValueId>& items, std::size_t i, int64_t dim,
                 const Binding& binding, const std::vector<Goal>& goals,
                 std::vector<std::pair<Binding, std::vector<Goal>>>& ways) const {
    if (w == wanted.size()) {
      if (i == items.size()) ways.emplace_back(binding, goals);
      return;
    }
    if (wanted[w].node >= 0) {
      if (i == items.size()) return;
      std::vector<Goal> more = goals;
      more.push_back({wanted[w].node, items[i]});
      share_out(wanted, w + 1, items, i + 1, dim, binding, more, ways);
      return;
    }
    const auto sequence = static_cast<std::size_t>(wanted[w].sequence);
    for (std::size_t end = i + 1; end <= items.size(); ++end) {
      Binding longer = binding;
      std::vector<ValueId>& bound = longer.sequences[sequence];
      const std::vector<ValueId> taken(items.begin() + static_cast<std::ptrdiff_t>(i),
                                       items.begin() + static_cast<std::ptrdiff_t>(end));
      if (!bound.empty() && bound != taken) continue;
      bound = taken;
      const std::optional<Shape> shape = concatenated(taken, dim);
      if (!shape || !longer.symbols.unify(rule_.sequences[sequence].shape, *shape, rule_.symbols)) {
        continue;
      }
      share_out(wanted, w + 1, items, end, dim, longer, goals, ways);
    }
  }

  std::optional<Shape> concatenated(const std::vector<ValueId>& items, int64_t dim) const {
    Shape shape = terms_.type(items.front()).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const auto along = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
    if (along >= shape.size()) return std::nullopt;
    for (std::size_t i = 1; i < items.size(); ++i)
      shape[along] += terms_.type(items[i]).shape.at(along);
    return shape;
  }

  // Values that a node may be, from what it reads and is bound.
  std::vector<ValueId> candidates(int node, const Binding& binding) const {
    if (value_of(node, binding).valid()) return {value_of(node, binding)};
    const PatternNode& wanted = pattern(node);
    if (wanted.word == nullptr) return {};
    std::vector<ValueId> all;
    for (int read : nodes_read(wanted)) {
      for (ValueId operand : candidates(read, binding)) {
        for (TermId reader : terms_.readers(operand)) {
          const Term& term = terms_.term(reader);
          if (wanted.word->matches(term.info) && term.results.size() == 1) {
            all.push_back(term.results.front());
          }
        }
      }
      if (!all.empty()) break;
    }
    std::ranges::sort(all);
    const auto repeated = std::ranges::unique(all);
    all.erase(repeated.begin(), repeated.end());
    return all;
  }

  const Rule& rule_;
  const std::vector<int>& tops_;
  const TermGraph& terms_;
};

}  // namespace

PatternMatcher::PatternMatcher(const Rule& rule) : rule_(rule) {
  std::vector<bool> read(rule.nodes.size(), false);
  for (std::size_t n = 0; n < rule.left_count; ++n) {
    for (int operand : nodes_read(rule.nodes[n])) read[static_cast<std::size_t>(operand)] = true;
  }
  for (std::size_t n = 0; n < rule.left_count; ++n) {
    if (rule.nodes[n].word != nullptr && !read[n]) tops_.push_back(static_cast<int>(n));
  }
}

int PatternMatcher::depth() const {
  std::vector<int> depth(rule_.left_count, 0);
  int deepest = 0;
  for (std::size_t n = 0; n < rule_.left_count; ++n) {
    for (int operand : nodes_read(rule_.nodes[n])) {
      depth[n] = std::max(depth[n], depth[static_cast<std::size_t>(operand)] + 1);
    }
    deepest = std::max(deepest, depth[n]);
  }
  return deepest;
}

std::vector<Binding> PatternMatcher::match(const TermGraph& terms, TermId anchor) const {
  const Term& term = terms.term(anchor);
  const PatternNode& top = rule_.nodes[static_cast<std::size_t>(tops_.front())];
  if (term.dead || term.results.size() != 1 || !top.word->matches(term.info)) return {};
  if (!has_operators(rule_, tops_.front(), terms, term.results.front())) return {};
  Solver solver(rule_, tops_, terms);
  solver.solve({{tops_.front(), term.results.front()}}, Binding(rule_));
  return std::move(solver.found);
}

}  // namespace magis
