// What a certified bound looks like in a document: the witness of
// plimsoll/balance/placement_bound.h, key by key. Infinities are written as null.
#pragma once

#include <limits>

#include "io/documents/names.h"
#include "io/json/json_reader.h"
#include "plimsoll/balance/placement_bound.h"

namespace plimsoll::io {

inline constexpr Rule kIndex{.min = -1};

template <class Fields, SameAs<balance::DualFunction> T>
void describe(Fields& fields, T& function) {
  fields.required("kind", function.kind);
  fields.optional("parameter", function.parameter);
}

template <class Fields, SameAs<balance::RoomProof> T>
void describe(Fields& fields, T& proof) {
  fields.required("room", proof.room, kNullable);
  fields.required("uniform_load", proof.uniform_load, kNullable);
  fields.optional("value", proof.value, kNullable);
  fields.optional("price", proof.price, kNullable);
  fields.optional("function", proof.function);
  fields.optional("multiplier", proof.multiplier, kNullable);
}

template <class Fields, SameAs<balance::WindowNode> T>
void describe(Fields& fields, T& node) {
  fields.stated("first_child", node.first_child, kIndex);
  fields.optional("split", node.split, kNullable);
  fields.stated("class_index", node.class_index, kIndex);
  fields.stated("host", node.host, kIndex);
  fields.stated("proof", node.proof, kIndex);
}

template <class Fields, SameAs<balance::WindowWitness> T>
void describe(Fields& fields, T& witness) {
  fields.required("target", witness.target, kNullable);
  fields.required("top", witness.top, kNullable);
  fields.optional("class_of_unit", witness.class_of_unit, kIndex);
  fields.optional("proofs", witness.proofs);
  fields.optional("nodes", witness.nodes);
  fields.optional("cells", witness.cells, kNonNegative);
}

template <class Fields, SameAs<balance::PriceWitness> T>
void describe(Fields& fields, T& witness) {
  fields.stated("target", witness.target, kNullable);
  fields.optional("theta", witness.theta, kNullable);
  fields.optional("price", witness.price, kNullable);
  fields.optional("weight", witness.weight);
}

template <class Fields, SameAs<balance::Anchor> T>
void describe(Fields& fields, T& anchor) {
  fields.required("unit", anchor.unit, kNonNegative);
  fields.stated("resource", anchor.resource, kIndex);
  fields.required("weight", anchor.weight, kNullable);
}

template <class Fields, SameAs<balance::ChoiceProof> T>
void describe(Fields& fields, T& proof) {
  fields.required("target", proof.target, kNullable);
  fields.optional("mean", proof.mean, kNullable);
  fields.optional("price", proof.price, kNullable);
  fields.optional("anchors", proof.anchors);
}

template <class Fields, SameAs<balance::ChoiceNode> T>
void describe(Fields& fields, T& node) {
  fields.stated("first_child", node.first_child, kIndex);
  fields.stated("unit", node.unit, kIndex);
  fields.optional("choices", node.choices, kNonNegative);
  fields.stated("proof", node.proof, kIndex);
}

template <class Fields, SameAs<balance::ChoiceWitness> T>
void describe(Fields& fields, T& witness) {
  fields.optional("nodes", witness.nodes);
  fields.optional("proofs", witness.proofs);
}

template <class Fields, SameAs<balance::BarrierProof> T>
void describe(Fields& fields, T& proof) {
  fields.stated("method", proof.method);
  fields.optional("prices", proof.prices);
  fields.optional("windows", proof.windows);
}

template <class Fields, SameAs<balance::BoxProof> T>
void describe(Fields& fields, T& proof) {
  fields.required("room", proof.room, kNullable);
  fields.required("uniform_load", proof.uniform_load, kNullable);
  fields.optional("value", proof.value, kNullable);
  fields.optional("price", proof.price, kNullable);
  fields.optional("uniform_price", proof.uniform_price, kNullable);
}

template <class Fields, SameAs<balance::BoxNode> T>
void describe(Fields& fields, T& node) {
  fields.stated("first_child", node.first_child, kIndex);
  fields.stated("barrier", node.barrier, kIndex);
  fields.optional("split", node.split, kNullable);
  fields.stated("proof", node.proof, kIndex);
}

template <class Fields, SameAs<balance::BoxWitness> T>
void describe(Fields& fields, T& witness) {
  fields.optional("top", witness.top, kNullable);
  fields.optional("limits", witness.limits, kNonNegative);
  fields.optional("class_of_unit", witness.class_of_unit, kIndex);
  fields.optional("proofs", witness.proofs);
  fields.optional("nodes", witness.nodes);
}

template <class Fields, SameAs<balance::BoundCase> T>
void describe(Fields& fields, T& bound) {
  fields.stated("paid", bound.paid);
  fields.stated("forbidden", bound.forbidden);
  fields.required("value", bound.value, kNullable);
  fields.stated("method", bound.method);
  fields.optional("load_resource", bound.load_resource, kNonNegative);
  fields.optional("prices", bound.prices);
  fields.optional("windows", bound.windows);
  fields.optional("choices", bound.choices);
  fields.optional("barriers", bound.barriers);
  fields.optional("boxes", bound.boxes);
}

template <class Fields, SameAs<balance::PlacementBound> T>
void describe(Fields& fields, T& bound) {
  fields.required("value", bound.value, kNullable);
  fields.stated("method", bound.method);
  fields.required("kind_of_rank", bound.kind_of_rank, kNonNegative);
  fields.required("cases", bound.cases);
  fields.stated("binding_resource", bound.binding_resource, kIndex);
  fields.optional("missing", bound.missing, kNonNegative);
  fields.stated("stuck_unit", bound.stuck_unit, kIndex);
}

// What was written as null was infinite.
inline void restore_infinities(balance::PlacementBound& bound) {
  const auto restore = [](double& value) {
    if (value != value) value = std::numeric_limits<double>::infinity();
  };
  const auto restore_proof = [&](auto& proof) {
    restore(proof.prices.target);
    restore(proof.windows.target);
    restore(proof.windows.top);
  };
  restore(bound.value);
  for (balance::BoundCase& part : bound.cases) {
    restore(part.value);
    restore_proof(part);
    for (balance::BarrierProof& proof : part.barriers) restore_proof(proof);
    for (balance::ChoiceProof& proof : part.choices.proofs) restore(proof.target);
  }
}

}  // namespace plimsoll::io
