package expr_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// asUnstructured converts a typed object as the dynamic client would return it.
func asUnstructured(t interface{ Fatal(...any) }, o runtime.Object) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// scalarOf returns a value with times as texts: only typed objects have times of a type of their own.
func scalarOf(v expr.Value) expr.Value {
	if v.Kind == expr.Time {
		return expr.Value{Kind: expr.Text, Text: v.Time.UTC().Format(time.RFC3339)}
	}
	return v
}

// TestFormsAgree: a program gives the same answer for a Go struct and for the same object as maps, whether it runs as
// a path, as a closure or as jq.
func TestFormsAgree(t *testing.T) {
	wanted := []string{"", "True", "False", "Running", "Pending", "yes", "true", "false", "0", "1", "3", "Job", "Ready", "Always"}
	for of, kind := range map[expr.Form]string{expr.Pod: "Pod", expr.Node: "Node"} {
		programs := append(expr.NativePrograms(of), `.metadata.labels.go`, `.metadata.annotations["b/c"]`, `.metadata.labels.go // .metadata.annotations.absent`,
			`.status.conditions[] | select(.type == "Ready") | .status`, `.status.conditions | length`, `[.status.conditions[]?.type] | sort | join(",")`,
			`.metadata.finalizers | index("x/y")`, `.status.addresses[]?.address`)
		if of == expr.Pod {
			programs = append(programs, typedPaths...)
			programs = append(programs, `.spec.containers | map(.name) | sort`, `.status.containerStatuses // [] | any(.ready)`, `.spec.containers[0].image`)
		}
		for _, program := range programs {
			if program == ".kind" || program == ".apiVersion" || program == "." {
				continue // typed objects have no kind in their JSON, as in KWOK
			}
			typed, err := expr.CompileJQ(program, of, false)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := expr.CompileJQ(program, expr.Unstructured, false)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(kind+" "+program, func(t *testing.T) {
				rapid.Check(t, func(r *rapid.T) {
					var o interface {
						runtime.Object
						metav1.Object
					} = stagetest.DrawPod(r)
					if of == expr.Node {
						o = stagetest.DrawNode(r)
					}
					a := &expr.View{Object: o, Now: stagetest.Start}
					b := &expr.View{Object: asUnstructured(r, o), Now: stagetest.Start}
					if x, y := typed.Exists(a), plain.Exists(b); x != y {
						r.Fatalf("exists: struct %t, maps %t in %v", x, y, b.Object)
					}
					if x, y := scalarOf(typed.First(a)), scalarOf(plain.First(b)); x != y {
						r.Fatalf("first: struct %s, maps %s", x.Describe(), y.Describe())
					}
					for _, text := range wanted {
						if x, y := typed.In(a, []string{text}), plain.In(b, []string{text}); x != y {
							r.Fatalf("in %q: struct %t, maps %t", text, x, y)
						}
					}
				})
			})
		}
	}
}

// TestCELAgreesWithJQ: a field has the same value in both languages.
func TestCELAgreesWithJQ(t *testing.T) {
	compiler := &expr.CELCompiler{}
	for path, selector := range map[string]string{
		".metadata.name":                        "self.metadata.name",
		".spec.nodeName":                        "self.spec.nodeName",
		".status.phase":                         "self.status.phase",
		".spec.restartPolicy":                   "self.spec.restartPolicy",
		".spec.containers | length":             "self.spec.containers.size()",
		".spec.containers[0].name":              "self.spec.containers[0].name",
		".metadata.labels.go":                   "self.metadata.labels['go']",
		".spec.hostNetwork":                     "self.spec.hostNetwork",
		`(.metadata.finalizers // []) | length`: "self.metadata.finalizers.size()",
	} {
		jq, err := expr.CompileJQ(path, expr.Pod, false)
		if err != nil {
			t.Fatal(err)
		}
		cel, err := compiler.Compile(selector, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(path, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				v := &expr.View{Object: stagetest.DrawPod(r), Now: stagetest.Start}
				want := jq.First(v)
				got, err := cel.First(v, "s")
				switch {
				case want.Kind == expr.None: // in CEL it has its zero value, or its key is missing
					if err == nil && got.Text != "" || got.Number != 0 {
						r.Fatalf("jq has nothing, CEL %s", got.Describe())
					}
				case err != nil || got != want:
					r.Fatalf("jq %s, CEL %s, %v", want.Describe(), got.Describe(), err)
				}
			})
		})
	}
}
