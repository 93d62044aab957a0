package expr

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestRegisteringABadProgramPanics checks that a mistake in a constant is found when the process starts, with the
// program in the message.
func TestRegisteringABadProgramPanics(t *testing.T) {
	for name, register := range map[string]func(){
		"texts": func() { RegisterTexts(Pod, ".a |", func(metav1.Object, int) (string, bool) { return "", false }) },
		"time": func() {
			RegisterTime(Node, ".a |", func(metav1.Object) (time.Time, bool) { return time.Time{}, false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, `register jq program ".a |": `) {
					t.Errorf("panics with %s", got)
				}
			}()
			register()
		})
	}
}

// TestWhichAlternativesAreReadFromTheObject checks that only A // B of two labels or annotations has a native form; all
// other alternatives are left to jq.
func TestWhichAlternativesAreReadFromTheObject(t *testing.T) {
	for program, want := range map[string]bool{
		`.metadata.labels.a // .metadata.annotations.b`:                     true,
		`.metadata["labels"]["a"] // (.metadata | .labels | .b)`:            true,
		`.metadata.labels.a // .metadata.name`:                              false,
		`.metadata.labels.a // .metadata.finalizers.b`:                      false,
		`.metadata.labels.a // .metadata.labels[]`:                          false,
		`.metadata.labels[] // .metadata.labels.a`:                          false,
		`.metadata.labels.a // "b"`:                                         false,
		`.spec.labels.a // .metadata.labels.a`:                              false,
		`.metadata.labels.a // .metadata.labels.b // .metadata.labels.c`:    false,
		`def f: 1; .metadata.labels.a // .metadata.labels.b`:                false,
		`(.metadata.labels.a // .metadata.labels.b) | length`:               false,
		`.metadata.labels.a // (.metadata.labels | select(.b == "x") | .b)`: false,
	} {
		for _, form := range []Form{Pod, Node} {
			q, err := CompileJQ(program, form, false)
			if err != nil {
				t.Errorf("%s: %v", program, err)
				continue
			}
			if got := !q.Interpreted(); got != want {
				t.Errorf("form %d: %s native: %v", form, program, got)
			}
		}
		if q, err := CompileJQ(program, Unstructured, false); err != nil || !q.Interpreted() {
			t.Errorf("%s of an unstructured object: %v", program, err)
		}
	}
}

// TestWhichPathsAreReadFromStructs checks the reasons for which a path on a Go struct is left to jq.
func TestWhichPathsAreReadFromStructs(t *testing.T) {
	type own struct {
		Quoted int            `json:"quoted,string"`
		Plain  int            `json:"plain"`
		Bytes  []byte         `json:"bytes"`
		Any    any            `json:"any"`
		Maps   map[string]int `json:"maps"`
		Float  float64        `json:"float"`
		*corev1.Toleration
	}
	for path, want := range map[string]bool{
		".plain": true, ".maps": true,
		".quoted": false, ".bytes": false, ".bytes[]": false, ".any": false, ".any.a": false, ".maps.a": false, ".float": false,
		".plain.a": false, ".plain[]": false, ".hidden": false, ".key": false, ".absent": false, ".absent.a": false,
		`select(.plain == "1")`: true, `select(.absent == "1")`: false, `select(.any.a == "1") | .plain`: false,
	} {
		parsed, err := gojq.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		steps, ok := ParsePath(parsed)
		if !ok {
			t.Fatalf("%s is no path", path)
		}
		if _, got := planTyped(reflect.TypeFor[own](), steps); got != want {
			t.Errorf("%s is read from the struct: %v", path, got)
		}
	}
}

// TestDrawsAreInRangeForEveryKey checks random keys: a draw is in [0, 1), is the same each time, and the parts
// of a key cannot be exchanged.
func TestDrawsAreInRangeForEveryKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, played := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "played")
		uid, stage := rapid.String().Draw(t, "uid"), rapid.String().Draw(t, "stage")
		why := Purpose(rapid.IntRange(int(ForChoice), int(ForTemplate)).Draw(t, "purpose"))
		first := Draw(seed, types.UID(uid), stage, played, why)
		if first < 0 || first >= 1 {
			t.Fatalf("drew %v", first)
		}
		if again := Draw(seed, types.UID(uid), stage, played, why); again != first {
			t.Fatalf("drew %v, and again %v", first, again)
		}
		if uid != stage && Draw(seed, types.UID(stage), uid, played, why) == first {
			t.Fatalf("UID %q and stage %q can be exchanged", uid, stage)
		}
	})
}

// TestObjectsWithoutAForm checks that an object of another Go type has no results and does not panic.
func TestObjectsWithoutAForm(t *testing.T) {
	v := &View{Object: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, Now: stagetest.Start}
	condition, err := (&CELCompiler{}).Compile("self.metadata.name == 's'", false)
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := condition.Holds(v, "s"); holds || err == nil {
		t.Errorf("a condition on a Service: %v, %v", holds, err)
	}
	path, err := CompileJQ(".spec.a", Unstructured, false)
	if err != nil {
		t.Fatal(err)
	}
	if path.Exists(v) {
		t.Error("a path for unstructured objects finds a field of a Service")
	}
}
