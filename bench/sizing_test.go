package main

import "testing"

// TestSolveSize: the constants reproduce the points, and points that do not determine them are rejected.
func TestSolveSize(t *testing.T) {
	points := [3]sizePoint{{nodes: 3, bytes: 1003}, {nodes: 103, bytes: 1103}, {nodes: 103, pods: 50, bytes: 1203}}
	bytes := func(p sizePoint) float64 { return float64(p.bytes) }
	if c, ok := solveSize(points, bytes); !ok || c != (sizeConstants{base: 1000, perNode: 1, perPod: 2}) {
		t.Errorf("%+v, %v; want 1000 + nodes + 2 pods", c, ok)
	}
	for name, points := range map[string][3]sizePoint{
		"the same nodes":        {{nodes: 3}, {nodes: 3}, {nodes: 3, pods: 1}},
		"no pods":               {{nodes: 3}, {nodes: 4}, {nodes: 4}},
		"nodes and pods differ": {{nodes: 3}, {nodes: 4}, {nodes: 5, pods: 1}},
		"pods at first":         {{nodes: 3, pods: 1}, {nodes: 4}, {nodes: 4, pods: 2}},
	} {
		if _, ok := solveSize(points, bytes); ok {
			t.Errorf("%s: solved", name)
		}
	}
}
