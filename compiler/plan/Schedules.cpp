//===- Schedules.cpp - schedules of engines as attributes -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An attribute has no member that follows from others.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Schedules.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

Schedule compiler::scheduleOf(moe::ScheduleAttr attribute) {
  Schedule s;
  s.engine = attribute.getEngine(), s.source = attribute.getSource();
  s.tileM = attribute.getTileM(), s.tileN = attribute.getTileN();
  s.tileK = attribute.getTileK();
  s.stages = attribute.getStages(), s.groupM = attribute.getGroup();
  s.ctasPerSm = attribute.getCtasPerSm();
  if (auto warps = dyn_cast<moe::WarpsScheduleAttr>(attribute))
    s.warpsM = warps.getWarps()[0], s.warpsN = warps.getWarps()[1];
  if (const moe::Roles *roles = attribute.getRoles()) {
    s.warpsM = s.warpsN = 0;
    s.producerWarps = roles->producerWarps;
    s.consumerWarps = roles->consumerWarps;
    s.producerRegisters = roles->registers[0];
    s.consumerRegisters = roles->registers[1];
    s.swap = attribute.getSwap();
  }
  if (auto slices = dyn_cast<moe::SlicesScheduleAttr>(attribute)) {
    s.buffers = slices.getBuffers(), s.blockRows = slices.getBlockRows();
    s.blockTokens = slices.getBlockTokens();
  }
  return s;
}

static void setRoles(moe::Roles &roles, const Schedule &s) {
  roles.producerWarps = s.producerWarps;
  roles.consumerWarps = s.consumerWarps;
  roles.registers = {s.producerRegisters, s.consumerRegisters};
}

moe::ScheduleAttr compiler::attributeOf(MLIRContext *context, const Schedule &s,
                                        bool programmatic, bool split) {
  const auto fill = [&](moe::MatmulSchedule &fields) {
    fields.engine = s.engine, fields.source = s.source;
    fields.tile = {s.tileM, s.tileN, s.tileK};
    fields.stages = s.stages, fields.group = s.groupM;
    fields.ctasPerSm = s.ctasPerSm;
    fields.programmatic = programmatic;
  };
  if (!s.hasRoles()) {
    moe::WarpsSchedule fields;
    fill(fields);
    fields.warps = {s.warpsM, s.warpsN};
    return moe::WarpsScheduleAttr::get(context, fields);
  }
  moe::RolesSchedule fields;
  fill(fields);
  setRoles(fields, s);
  fields.swap = s.swap;
  if (split)
    fields.cluster = {kSplit, 1, 1};
  return moe::RolesScheduleAttr::get(context, fields);
}

moe::ScheduleAttr compiler::attributeOfSlices(MLIRContext *context,
                                              const Schedule &s,
                                              bool programmatic) {
  moe::SlicesSchedule fields;
  fields.tile = {s.tileM, s.tileN, s.tileK};
  fields.stages = s.stages;
  fields.blockTokens = s.blockTokens, fields.blockRows = s.blockRows;
  fields.buffers = s.buffers;
  setRoles(fields, s);
  fields.programmatic = programmatic;
  return moe::SlicesScheduleAttr::get(context, fields);
}
