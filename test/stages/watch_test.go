package stages_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/stage"
)

// object parses one object.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const apiStage = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: %s}
spec:
  resourceRef: {apiGroup: v1, kind: ConfigMap}
  selector: {matchExpressions: [{key: '%s', operator: Exists}, {key: .data.by, operator: DoesNotExist}]}
  next: {patches: [{type: merge, root: data, template: 'by: %s'}]}
`

// watching returns an engine that runs the Stage objects of the API. Requests that reject accepts are answered
// with 403.
func watching(reject func(*http.Request) bool) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if !reject(r) {
					return next.RoundTrip(r)
				}
				body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
				return &http.Response{
					StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": []string{"application/json"}},
					Body: io.NopCloser(bytes.NewBufferString(body)), Request: r,
				}, nil
			})
		})
		none, err := stage.Compile(nil)
		if err != nil {
			return err
		}
		e, err := stages.NewStageEngine(config, stages.StageOptions{
			Stages: none, Watch: true, Seed: 1, Manage: stages.NodeFilter{All: true}, LeaseDuration: -1, Workers: 1,
		})
		if err != nil {
			return err
		}
		return e.Run(ctx)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func play(t *testing.T, scenario func(*simtest.World)) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(crds.Stage(), crd); err != nil {
		t.Fatal(err)
	}
	if r := simtest.Explore(t, simtest.Seeds(1).CRDs(crd), scenario); r.Failure != nil {
		t.Error(r.Failure.Run.Failure)
	}
}

// TestConditionBacksOff checks that the condition of a Stage object that the API rejects each time is written
// ever more seldom, at once after a change of the object, and that the conditions of others are written.
func TestConditionBacksOff(t *testing.T) {
	bad, good := object(t, fmt.Sprintf(apiStage, "bad", ".data.x", "bad")), object(t, fmt.Sprintf(apiStage, "good", ".data.y", "good"))
	play(t, func(w *simtest.World) {
		bad, good := bad.DeepCopy(), good.DeepCopy()
		var mu sync.Mutex
		attempts := 0
		taken := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			n, attempts = attempts, 0
			return n
		}
		w.Faults()
		w.Controller("stages", watching(func(r *http.Request) bool {
			rejected := r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/stages/bad/status")
			if rejected {
				mu.Lock()
				attempts++
				mu.Unlock()
			}
			return rejected
		}))
		w.Create(bad, good)
		w.Advance(time.Hour)
		if n := taken(); n < 10 || n > 25 {
			w.Fatalf("%d attempts in an hour", n)
		}
		bad.SetLabels(map[string]string{"a": "b"})
		w.Update(bad)
		w.Advance(10 * time.Second)
		if n := taken(); n < 3 || n > 5 {
			w.Fatalf("%d attempts in the ten seconds after a change", n)
		}
		w.Eventually(time.Second, invariant.MustCEL("the other stage is Ready",
			`list("stages.kwok.x-k8s.io", "").exists(s, s.metadata.name == "good" && s.status.conditions[0].status == "True")`))
	})
}

// TestOverrunningStage checks that a Stage object that exceeds its budget becomes Invalid after some objects,
// with an Event, that the others run, and that it runs again after a change.
func TestOverrunningStage(t *testing.T) {
	hungry, good := object(t, fmt.Sprintf(apiStage, "hungry", `.data.x * 2000000000`, "hungry")), object(t, fmt.Sprintf(apiStage, "good", ".data.y", "good"))
	play(t, func(w *simtest.World) {
		hungry := hungry.DeepCopy()
		w.Faults()
		w.Controller("stages", watching(func(*http.Request) bool { return false }))
		w.Create(hungry, good.DeepCopy())
		w.Settle()
		for i := range 8 {
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}, Data: map[string]string{"x": "x", "y": "y"}})
		}
		w.Settle()
		all := func(by string) invariant.Invariant {
			return invariant.MustCEL("all are changed by "+by, `list("configmaps", "default").filter(c, c.metadata.name.startsWith("c")).all(c, c.data.by == "`+by+`")`)
		}
		view := w.View()
		if err := all("good").Check(view); err != nil {
			w.Fatalf("%v", err)
		}
		if err := invariant.MustCEL("the stage is Invalid", `list("stages.kwok.x-k8s.io", "").exists(s, s.metadata.name == "hungry" && s.status.conditions[0].reason == "Invalid"
			&& s.status.conditions[0].message.contains("does too much"))`).Check(view); err != nil {
			w.Fatalf("%v", err)
		}
		if err := invariant.MustCEL("an Event reports it", `list("events", "default").exists(e, e.reason == "StageInvalid" && e.involvedObject.name == "hungry")`).Check(view); err != nil {
			w.Fatalf("%v", err)
		}
		w.Get(hungry)
		_ = unstructured.SetNestedField(hungry.Object, []any{map[string]any{"key": ".data.x", "operator": "Exists"}, map[string]any{"key": ".data.by", "operator": "In", "values": []any{"good"}}},
			"spec", "selector", "matchExpressions")
		w.Update(hungry)
		w.Eventually(time.Minute, all("hungry"))
	})
}
