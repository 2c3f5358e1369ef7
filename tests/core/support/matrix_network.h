// Networks of matrices: what graphs for scheduling are generated from.
#pragma once

#include <cstdint>
#include <vector>

#include "magis/graph/graph.h"

namespace magis::test {

// Everything is a matrix of f32, but for the loss.
struct MatrixNetwork {
  enum class Kind : uint8_t {
    input,
    weight,
    mm,
    add,
    relu,
    threshold_backward,  // operands: gradient, result of relu
    scale,               // by 2
    square,
    sum,      // over everything: the loss
    cat,      // along `axis`
    slice,    // of `axis`, from `begin` to `end`; a view
    permute,  // transposed; a view
  };
  struct Item {
    int id;
    Kind kind;
    std::vector<int> operands;  // ids
    int64_t rows = 0;
    int64_t columns = 0;
    int axis = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };

  // Appends an item of the shape that follows from its operands; returns its id.
  int add(Kind kind, std::vector<int> operands, int axis = 0, int64_t begin = 0, int64_t end = 0);
  int add_source(Kind kind, int64_t rows, int64_t columns);

  const Item& item(int id) const { return items[static_cast<std::size_t>(place_of(id))]; }
  int place_of(int id) const { return place[static_cast<std::size_t>(id)]; }
  // Sorts the items so that operands come first, otherwise as they are; drops what no output needs.
  void put_in_order();

  std::vector<Item> items;   // in program order
  std::vector<int> place;    // by id: index into items; -1: gone
  std::vector<int> outputs;  // ids; the first is the loss if there is one
};

// The value of item 7 is named n7.
Graph to_graph(const MatrixNetwork& network);

}  // namespace magis::test
