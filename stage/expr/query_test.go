package expr_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestReadSeparatesAbsentFieldsFromErrors checks which errors of jq mean that a field is absent, which is no result,
// and which are reported: a delay with such an error stops its stage.
func TestReadSeparatesAbsentFieldsFromErrors(t *testing.T) {
	const text = `{apiVersion: a/v1, kind: Widget, spec: {name: web, size: "3", list: [1], none: null}}`
	for program, want := range map[string]string{
		`.spec.size | tonumber`:          "the number 3",
		`.spec.none | tonumber`:          "nothing",
		`.spec.absent | tonumber`:        "nothing",
		`.spec.absent - 1`:               "nothing",
		`1 - .spec.absent`:               "nothing",
		`.spec.absent[]`:                 "nothing",
		`.spec.absent | fromdate`:        "nothing",
		`.spec.absent | length`:          "the number 0",
		`.spec.absent // "fallback"`:     `"fallback"`,
		`empty`:                          "nothing",
		`null, 7`:                        "the number 7",
		`.spec.name | tonumber`:          `error: tonumber cannot be applied to "web": invalid number`,
		`.spec.name.first`:               "nothing", // a path leads to something or to nothing
		`.spec.list.first`:               "nothing",
		`.spec.name[]`:                   "nothing",
		`.spec.name - 1`:                 `error: cannot subtract: string ("web") and number (1)`,
		`error("out of order")`:          "error: error: out of order",
		`error("nothing: null")`:         "nothing", // as jq words it for null
		`7, error("late")`:               "error: error: late",
		`try error("caught") catch "ok"`: `"ok"`,
	} {
		q := compiled(t, program)
		value, err := q.Read(viewOf(t, text))
		if got := described(value, err); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
		if first := q.First(viewOf(t, text)); err != nil && first.Kind != expr.None || err == nil && first != value {
			t.Errorf("%s: first is %s", program, first.Describe())
		}
	}
}

// TestLimitsOfPrograms checks the bounds themselves: what is within passes, and one more does not.
func TestLimitsOfPrograms(t *testing.T) {
	for program, over := range map[string]string{
		`range(10000)`:                "",
		`range(10001)`:                "more than 10000 results",
		`range(20000) | null`:         "", // null is no result
		`range(20000) | empty`:        "",
		`last(range(10000000))`:       "more than 1000000 steps",
		`repeat(null)`:                "more than 1000000 steps",
		`[limit(1000; repeat(1))]`:    "",
		`"x" * 1000 | length`:         "",
		`"x" * 1000000000 | length`:   "a value in it grows too large, or is gone through too often",
		`[range(1000)] | length`:      "",
		`try repeat(1) catch "ended"`: "more than 10000 results",
	} {
		v := viewOf(t, `{apiVersion: a/v1, kind: Widget}`)
		_, err := compiled(t, program).Results(v)
		switch {
		case over == "" && (err != nil || v.Exceeded != nil):
			t.Errorf("%s: %v", program, err)
		case over != "" && (err == nil || err.Error() != "the program does too much: "+over || v.Exceeded == nil):
			t.Errorf("%s: %v, want %s", program, err, over)
		}
	}
	longest := "." + strings.Repeat(" ", 16384-1)
	if _, err := expr.CompileJQ(longest, expr.Pod, false); err != nil {
		t.Errorf("a program of 16384 bytes: %.100v", err)
	}
	if _, err := expr.CompileJQ(longest+" ", expr.Pod, false); err == nil {
		t.Error("a program of 16385 bytes is accepted")
	}
}

// TestProgramsReadOnlyTheObject checks every function whose answer depends on the machine or that ends the process: in
// a selector and in a delay, nested, and also where the program defines a function of that name.
func TestProgramsReadOnlyTheObject(t *testing.T) {
	for name, why := range map[string]string{
		"input": "there is no further input", "inputs": "there is no further input", "debug": "it writes to the terminal", "stderr": "it writes to the terminal",
		"halt": "it ends the program", "halt_error": "it ends the program", "env": "it reads the environment", "$ENV": "it reads the environment",
		"localtime": "it reads the machine's time zone", "input_filename": "there is no input file",
	} {
		for _, program := range []string{"%s", ".a | %s", "def f: %s; f", "[.[] | {a: %s}]", "if %s then 1 else 2 end", `"\(%s)"`, "try %s catch 1", ".[%s]", "reduce %s as $x (0; 1)"} {
			program = fmt.Sprintf(program, name)
			for _, form := range []expr.Form{expr.Unstructured, expr.Pod, expr.Node} {
				_, err := expr.CompileJQ(program, form, true)
				if want := name + " may not be used: " + why; err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%s: %v, want %s", program, err, want)
				}
			}
		}
	}
}

// TestKeysOfEachKind checks labels and annotations, alone and as alternatives, on each form of object: they are read
// without jq, and a key with an empty value exists.
func TestKeysOfEachKind(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "1", "b/c": "", "d.e": "3"}, Annotations: map[string]string{"a": "4"}}
	values := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "x", "labels": map[string]any{"a": "1", "b/c": "", "d.e": "3"}, "annotations": map[string]any{"a": "4"}},
	}
	objects := map[expr.Form]metav1.Object{
		expr.Pod: &corev1.Pod{ObjectMeta: meta}, expr.Node: &corev1.Node{ObjectMeta: meta}, expr.Unstructured: &unstructured.Unstructured{Object: values},
	}
	for program, want := range map[string]string{
		`.metadata.labels.a`:                                                    `"1"`,
		`.metadata.labels["b/c"]`:                                               `""`,
		`.metadata["labels"]["d.e"]`:                                            `"3"`,
		`.metadata | .labels | .a`:                                              `"1"`,
		`.metadata.labels.none`:                                                 "nothing",
		`.metadata.annotations.a`:                                               `"4"`,
		`.metadata.annotations.none`:                                            "nothing",
		`.metadata.annotations.none // .metadata.labels.a`:                      `"1"`,
		`.metadata.annotations.a // .metadata.labels.a`:                         `"4"`,
		`.metadata.labels["b/c"] // .metadata.labels.a`:                         `""`,
		`.metadata.labels.none // .metadata.annotations.none`:                   "nothing",
		`.metadata.labels.none // .metadata.labels.other // .metadata.labels.a`: `"1"`,
		`.metadata.labels.none // "fallback"`:                                   `"fallback"`,
		`.metadata.labels.none // .metadata.name`:                               `"x"`,
	} {
		for form, o := range objects {
			q, err := expr.CompileJQ(program, form, false)
			if err != nil {
				t.Fatal(err)
			}
			v := &expr.View{Object: o, Now: stagetest.Start}
			value := q.First(v)
			if got := value.Describe(); got != want {
				t.Errorf("form %d: %s is %s, want %s", form, program, got, want)
			}
			if q.Exists(v) != (want != "nothing") || want != "nothing" && !q.In(v, []string{"x y", value.Text}) || q.In(v, []string{"x y"}) {
				t.Errorf("form %d: %s exists %v", form, program, q.Exists(v))
			}
		}
	}
}

// TestTypesWithJSONOfTheirOwnAreLeftToJQ checks paths through types whose JSON does not follow from the Go type, on random
// pods: the answers are those for the pod's JSON.
func TestTypesWithJSONOfTheirOwnAreLeftToJQ(t *testing.T) {
	for _, program := range []string{
		`.spec.containers[].resources.limits.cpu`, `.spec.containers[].resources.requests`, `.status.containerStatuses[].allocatedResources.cpu`,
		`.status.containerStatuses[].resources.requests.cpu`, `.metadata.labels[]`, `.spec.containers[0].name`, `.status.phase.x`, `.nothing`,
	} {
		typed, err := expr.CompileJQ(program, expr.Pod, false)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := expr.CompileJQ(program, expr.Unstructured, false)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			p := stagetest.DrawPod(t)
			a := &expr.View{Object: p, Now: stagetest.Start}
			b := &expr.View{Object: asUnstructured(t, p), Now: stagetest.Start}
			if x, y := typed.First(a), plain.First(b); x != y {
				t.Fatalf("%s: %s for the pod, %s for its JSON", program, x.Describe(), y.Describe())
			}
			if x, y := typed.Exists(a), plain.Exists(b); x != y {
				t.Fatalf("%s exists: %v for the pod, %v for its JSON", program, x, y)
			}
		})
	}
}

// TestTypedObjectsHaveNoKind checks that a program for pods finds no kind, as in KWOK, and one for other objects does.
func TestTypedObjectsHaveNoKind(t *testing.T) {
	for _, program := range []string{".kind", ".apiVersion", `[.kind][]`} {
		q, err := expr.CompileJQ(program, expr.Pod, false)
		if err != nil {
			t.Fatal(err)
		}
		p := stagetest.NewPod()
		p.TypeMeta = metav1.TypeMeta{}
		if v := (&expr.View{Object: p}); q.Exists(v) {
			t.Errorf("%s of a pod is %s", program, q.First(v).Describe())
		}
		if v := viewOf(t, `{apiVersion: a/v1, kind: Widget}`); !compiled(t, program).Exists(v) {
			t.Errorf("%s of a widget is absent", program)
		}
	}
}

// TestExpressionsServeManyObjectsAtOnce checks that compiled expressions can be used from several goroutines, each with
// a view of its own, and never mix their objects.
func TestExpressionsServeManyObjectsAtOnce(t *testing.T) {
	query := compiled(t, `[.metadata.name, .metadata.name] | join("-")`)
	path := compiled(t, `.metadata.name`)
	condition, err := (&expr.CELCompiler{}).Compile(`self.metadata.name + "-" + string(Rand() < 2.0)`, false)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	failures := make(chan string, 64)
	for i := range 8 {
		group.Go(func() {
			name := fmt.Sprint("object-", i)
			for range 100 {
				v := &expr.View{Object: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}, UID: types.UID(name), Now: stagetest.Start}
				cel, err := condition.First(v, "s")
				got := []string{query.First(v).Text, path.First(v).Text, cel.Text}
				if want := []string{name + "-" + name, name, name + "-true"}; err != nil || !slices.Equal(got, want) {
					failures <- fmt.Sprint(got, " for ", name, ": ", err)
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
}

// TestExceededStaysUntilItIsTaken checks that the view keeps the reason until the caller has read it, for jq and CEL.
func TestExceededStaysUntilItIsTaken(t *testing.T) {
	v := viewOf(t, `{apiVersion: a/v1, kind: Widget, spec: {a: 1}}`)
	if compiled(t, `[range(1e9)]`).Exists(v) || v.Exceeded == nil {
		t.Fatalf("exceeded: %v", v.Exceeded)
	}
	reason := v.Exceeded
	if !compiled(t, `.spec.a`).Exists(v) || v.Exceeded != reason {
		t.Errorf("another program on the same view: %v", v.Exceeded)
	}
	v.Exceeded = nil
	if !compiled(t, `.spec.a`).Exists(v) || v.Exceeded != nil {
		t.Errorf("exceeded again: %v", v.Exceeded)
	}
}
