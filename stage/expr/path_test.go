package expr_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// typedPaths are programs that general stages use and that run as paths on Go
// structs.
var typedPaths = []string{
	`.metadata.generateName`, `.metadata.generation`, `.metadata.creationTimestamp`, `.metadata.ownerReferences[].name`,
	`.metadata.labels`, `.metadata.annotations`, `.kind`, `.apiVersion`,
	`.spec.hostNetwork`, `.spec.terminationGracePeriodSeconds`, `.spec.restartPolicy`, `.spec.containers[].name`,
	`.spec.containers[].restartPolicy`, `.spec.initContainers[] | select(.restartPolicy == "Always") | .name`,
	`.spec.containers`, `.spec`, `.status`, `.status.startTime`, `.status.conditions`, `.status.conditions[]`,
	`.status.conditions[].observedGeneration`, `.status.conditions[] | select(.type != "Ready") | .status`,
	`.status.conditions[] | select(.type == "Ready") | select(.status == "True") | .reason`,
	`.status.conditions[] | select(.status == "True")`, `.status.conditions[].lastTransitionTime`,
	`.status.containerStatuses.[].state.waiting.reason`, `.status.containerStatuses[].state.running.startedAt`,
	`.status.initContainerStatuses[].state.terminated.exitCode`, `.status.containerStatuses[].ready`,
	`.status.containerStatuses[].started`, `.status.initContainerStatuses[] | select(.state.waiting.reason == "ContainerCreating") | .name`,
	`(.status.containerStatuses[]) | .restartCount`, `.`,
}

// TestTypedPathsAnswerAsJQ holds field access by reflection to jq.
func TestTypedPathsAnswerAsJQ(t *testing.T) {
	for _, text := range typedPaths {
		t.Run(text, func(t *testing.T) {
			fast, err := expr.CompileJQ(text, expr.Pod, false)
			if err != nil {
				t.Fatal(err)
			}
			if fast.Interpreted() && text != ".kind" && text != ".apiVersion" {
				t.Fatal("runs as jq")
			}
			slow := fast.WithoutNative()
			rapid.Check(t, func(t *rapid.T) { sameAnswers(t, expr.Pod, fast, slow) })
		})
	}
}

// TestLeftToJQ are programs whose JSON is not known from the Go type, or that
// are no path.
func TestLeftToJQ(t *testing.T) {
	for _, text := range []string{
		`.spec.containers[].resources.limits.cpu`, `.spec.containers[].ports[].hostPort?`, `.spec.nothing`, `.status.phase.x`, `.status.phase[]`,
		`.spec.containers[].livenessProbe.httpGet.port`, `.spec.containers[0].name`, `.metadata.labels[]`, `.status.conditions | length`,
		`select(.a == 1)`, `.spec.containers[] | select(.name == "a" and .image == "b")`,
	} {
		q, err := expr.CompileJQ(text, expr.Pod, false)
		if err != nil {
			t.Fatal(err)
		}
		if q.Native != nil {
			t.Errorf("%s does not run as jq", text)
		}
	}
}

// drawJSON draws objects with the fields the programs of drawPath name.
func drawJSON(t *rapid.T, depth int) any {
	kinds := []string{"null", "text", "number", "fraction", "true", "false"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "list", "list")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return rapid.SampledFrom([]string{"", "x", "y", "3", "true"}).Draw(t, "text")
	case "number":
		return rapid.Int64Range(-3, 3).Draw(t, "number")
	case "fraction":
		return rapid.SampledFrom([]float64{0.5, 1e21, 1e-7, 3}).Draw(t, "fraction")
	case "true":
		return true
	case "false":
		return false
	case "object":
		out := map[string]any{}
		for _, k := range []string{"a", "b", "c d"} {
			if rapid.Bool().Draw(t, k) {
				out[k] = drawJSON(t, depth-1)
			}
		}
		return out
	case "list":
		out := make([]any, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range out {
			out[i] = drawJSON(t, depth-1)
		}
		return out
	}
	return nil
}

func drawPath(t *rapid.T) string {
	text := ""
	for i := range rapid.IntRange(1, 5).Draw(t, "length") {
		part := rapid.SampledFrom([]string{".a", ".b", `."c d"`, `["a"]`, "[]", "[]", " | .a", " | .b", ` | select(.a == "x")`, ` | select(.a.b != "y")`, " | .[]"}).Draw(t, "part")
		if i == 0 && part[0] != '.' {
			text = "."
			if part[0] == ' ' {
				text = ".a"
			}
		}
		text += part
	}
	return text
}

// TestPathsAnswerAsJQ holds paths on unstructured objects to jq: random programs
// on random objects.
func TestPathsAnswerAsJQ(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawPath(t)
		object := map[string]any{}
		for _, k := range []string{"a", "b"} {
			object[k] = drawJSON(t, 3)
		}
		samePath(t, text, object)
	})
}

func samePath(t interface{ Fatalf(string, ...any) }, text string, object map[string]any) {
	fast, err := expr.CompileJQ(text, expr.Unstructured, false)
	if err != nil || fast.Interpreted() {
		return
	}
	slow := fast.WithoutNative()
	v := &expr.View{Object: &unstructured.Unstructured{Object: object}, Now: stagetest.Start}
	if got, want := fast.Exists(v), slow.Exists(v); got != want {
		t.Fatalf("%s on %v exists: path %v, jq %v", text, object, got, want)
	}
	for _, value := range []string{"", "x", "y", "3", "true", "false", "0", "-1", "0.5", "1e+21", "1e-7", "null"} {
		if got, want := fast.In(v, []string{value}), slow.In(v, []string{value}); got != want {
			t.Fatalf("%s on %v in %q: path %v, jq %v", text, object, value, got, want)
		}
	}
	if diff := cmp.Diff(fmt.Sprintf("%+v", slow.First(v)), fmt.Sprintf("%+v", fast.First(v))); diff != "" {
		t.Fatalf("%s on %v: first (-jq +path)\n%s", text, object, diff)
	}
}

// FuzzPath is the same for whatever anybody writes.
func FuzzPath(f *testing.F) {
	for _, text := range typedPaths {
		f.Add(text, `{"spec":{"containers":[{"name":"a"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	}
	f.Add(`.a | .[] | ."b"`, `{"a":{"y":{"b":1},"x":{"b":null}}}`)
	f.Fuzz(func(t *testing.T, text, object string) {
		var o map[string]any
		if json.Unmarshal([]byte(object), &o) != nil || o == nil {
			return
		}
		samePath(t, text, o)
	})
}
