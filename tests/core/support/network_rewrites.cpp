#include "support/network_rewrites.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace magis::test {
namespace {

using Kind = MatrixNetwork::Kind;
using Item = MatrixNetwork::Item;

// A place where a rule applies: the rule and the items that it takes.
struct Match {
  void (*apply)(MatrixNetwork&, const Match&);
  int first;
  int second = -1;
};

// Adds an item in the place of another.
int put(MatrixNetwork& net, int instead_of, Kind kind, std::vector<int> operands, int axis = 0,
        int64_t begin = 0, int64_t end = 0) {
  const int id = net.add(kind, std::move(operands), axis, begin, end);
  net.items.back().instead_of = instead_of;
  return id;
}

void merge_products(MatrixNetwork& net, const Match& match) {
  const Item a = net.item(match.first);
  const Item b = net.item(match.second);
  const int both = put(net, a.id, Kind::cat, {a.operands[1], b.operands[1]}, 1);
  const int product = put(net, a.id, Kind::mm, {a.operands[0], both});
  const int64_t all = a.columns + b.columns;
  net.redirect(a.id, put(net, a.id, Kind::slice, {product}, 1, 0, a.columns));
  net.redirect(b.id, put(net, a.id, Kind::slice, {product}, 1, a.columns, all));
}

void split_columns(MatrixNetwork& net, const Match& match) {
  const Item a = net.item(match.first);
  const int64_t half = a.columns / 2;
  std::vector<int> parts;
  for (const auto& [begin, end] : {std::pair(int64_t{0}, half), std::pair(half, a.columns)}) {
    const int w = put(net, a.id, Kind::slice, {a.operands[1]}, 1, begin, end);
    parts.push_back(put(net, a.id, Kind::mm, {a.operands[0], w}));
  }
  net.redirect(a.id, put(net, a.id, Kind::cat, parts, 1));
}

void split_sum(MatrixNetwork& net, const Match& match) {
  const Item a = net.item(match.first);
  const int64_t all = net.item(a.operands[0]).columns;
  std::vector<int> parts;
  for (const auto& [begin, end] : {std::pair(int64_t{0}, all / 2), std::pair(all / 2, all)}) {
    const int x = put(net, a.id, Kind::slice, {a.operands[0]}, 1, begin, end);
    const int w = put(net, a.id, Kind::slice, {a.operands[1]}, 0, begin, end);
    parts.push_back(put(net, a.id, Kind::mm, {x, w}));
  }
  net.redirect(a.id, put(net, a.id, Kind::add, parts));
}

void merge_sum(MatrixNetwork& net, const Match& match) {
  const Item sum = net.item(match.first);
  const Item a = net.item(sum.operands[0]);
  const Item b = net.item(sum.operands[1]);
  const int x = put(net, sum.id, Kind::cat, {a.operands[0], b.operands[0]}, 1);
  const int w = put(net, sum.id, Kind::cat, {a.operands[1], b.operands[1]}, 0);
  net.redirect(sum.id, put(net, sum.id, Kind::mm, {x, w}));
}

void reassociate(MatrixNetwork& net, const Match& match) {
  const Item outer = net.item(match.first);
  const Item inner = net.item(outer.operands[0]);
  const int right = put(net, inner.id, Kind::add, {inner.operands[1], outer.operands[1]});
  net.redirect(outer.id, put(net, outer.id, Kind::add, {inner.operands[0], right}));
}

class Matcher {
 public:
  explicit Matcher(const MatrixNetwork& net) : net_(net), uses_(net.use_counts()) {}

  // By rule: a random rule first, then a random place, else the most frequent rule wins always.
  std::vector<std::vector<Match>> matches() {
    std::vector<std::vector<Match>> found(5);
    for (const Item& item : net_.items) {
      if (item.kind == Kind::mm) {
        find_merges(item, found[0]);
        if (item.columns % 2 == 0) found[1].push_back({&split_columns, item.id});
        if (operand(item, 0).columns % 2 == 0) found[2].push_back({&split_sum, item.id});
      }
      if (item.kind != Kind::add) continue;
      const Item& left = operand(item, 0);
      const Item& right = operand(item, 1);
      if (own_product(left) && own_product(right) && left.id != right.id) {
        found[3].push_back({&merge_sum, item.id});
      }
      if (left.kind == Kind::add && used_once(left)) found[4].push_back({&reassociate, item.id});
    }
    return found;
  }

 private:
  const Item& operand(const Item& item, std::size_t i) const { return net_.item(item.operands[i]); }
  bool used_once(const Item& item) const { return uses_[static_cast<std::size_t>(item.id)] == 1; }
  bool own_product(const Item& item) const { return item.kind == Kind::mm && used_once(item); }

  void find_merges(const Item& a, std::vector<Match>& found) const {
    for (const Item& b : net_.items) {
      if (b.kind != Kind::mm || b.operands[0] != a.operands[0]) continue;
      if (net_.place_of(b.id) <= net_.place_of(a.id) || depends_on(b.id, a.id)) continue;
      found.push_back({&merge_products, a.id, b.id});
    }
  }
  bool depends_on(int id, int on) const {
    std::vector<char> seen(net_.place.size(), 0);
    const std::function<bool(int)> search = [&](int from) {
      if (from == on) return true;
      if (net_.place_of(from) < net_.place_of(on)) return false;
      if (std::exchange(seen[static_cast<std::size_t>(from)], 1)) return false;
      return std::ranges::any_of(net_.item(from).operands, search);
    };
    return search(id);
  }

  const MatrixNetwork& net_;
  std::vector<int> uses_;
};

}  // namespace

std::optional<MatrixNetwork> rewrite_somewhere(const MatrixNetwork& network, Random& random) {
  std::vector<std::vector<Match>> matches = Matcher(network).matches();
  std::erase_if(matches, [](const auto& of_rule) { return of_rule.empty(); });
  if (matches.empty()) return std::nullopt;
  const std::vector<Match>& rule = matches[random.below(matches.size())];
  const Match& match = rule[random.below(rule.size())];
  MatrixNetwork after = network;
  match.apply(after, match);
  after.put_in_order();
  return after;
}

}  // namespace magis::test
