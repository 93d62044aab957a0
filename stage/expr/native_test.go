package expr_test

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestNativeAnswersAsJQ holds every closure on typed objects to what the jq
// program it stands for says on the object's JSON.
func TestNativeAnswersAsJQ(t *testing.T) {
	for of, kind := range map[expr.Form]string{expr.Pod: "Pod", expr.Node: "Node"} {
		texts := expr.NativePrograms(of)
		for _, field := range []string{"status", "reason", "message"} {
			texts = append(texts,
				`.status.conditions.[] | select(.type == "Ready") | .`+field,
				`.status.conditions[]|select( .type=="example.com/a" )|.`+field)
		}
		if of == expr.Pod {
			texts = append(texts,
				`.status.containerStatuses[] | select(.ready == false) | .state.running.startedAt`,
				`.status.containerStatuses[] | select(.ready == true) | .name`,
				`.status.containerStatuses[] | select(.started != true) | .name`,
				`.status.containerStatuses[] | select(.name == false) | .name`)
		}
		texts = append(texts, `.metadata.labels.go`, `.metadata.labels["b/c"]`,
			`.metadata.annotations."with space"`, `.metadata.annotations["quote\"d"]`, `.metadata.labels.absent`,
			`.metadata.annotations["b/c"] // .metadata.labels.go`)
		for _, text := range texts {
			t.Run(kind+" "+text, func(t *testing.T) {
				fast, err := expr.CompileJQ(text, of, false)
				if err != nil {
					t.Fatal(err)
				}
				if fast.Interpreted() {
					t.Fatalf("%s has no closure", text)
				}
				slow := fast.WithoutNative()
				rapid.Check(t, func(t *rapid.T) { sameAnswers(t, of, fast, slow) })
			})
		}
	}
}

func sameAnswers(t *rapid.T, of expr.Form, fast, slow *expr.Query) {
	var o metav1.Object = stagetest.DrawPod(t)
	if of == expr.Node {
		o = stagetest.DrawNode(t)
	}
	v := &expr.View{Object: o, Now: stagetest.Start}
	if got, want := fast.Exists(v), slow.Exists(v); got != want {
		t.Fatalf("exists: closure %v, jq %v", got, want)
	}
	wanted := []string{"", "True", "False", "Unknown", "Running", "Pending", "yes", "3", "true", "false", "1", "0", "Job", "Because", "x://1"}
	if all, err := slow.Results(v); err == nil {
		for _, result := range all {
			if text, ok := result.(string); ok {
				wanted = append(wanted, text)
			}
		}
	}
	for _, want := range wanted {
		if got, want := fast.In(v, []string{want}), slow.In(v, []string{want}); got != want {
			t.Fatalf("in %q: fast %v, jq %v", wanted, got, want)
		}
	}
	got, want := fast.First(v), slow.First(v)
	if got.Kind == expr.Time { // a time without its text
		got = expr.Value{Kind: expr.Text, Text: got.Time.UTC().Format(time.RFC3339)}
	}
	if got != want {
		t.Fatalf("first: fast %+v, jq %+v", got, want)
	}
}
