package simtest

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestContents checks that the record of a failure contains what each write changed in its object.
func TestContents(t *testing.T) {
	r := Explore(t, Seeds(5), func(w *World) {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "one"}}
		w.Create(c)
		c.Data["k"] = "two"
		w.Update(c)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		w.Get(ns)
		ns.Labels["who"] = "us"
		w.Update(ns)
		w.Delete(c)
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad"}})
		w.Always(invariant.Never(invariant.Exists("configmaps", "default", "bad")))
	})
	if r.Failure == nil {
		t.Fatal("no failure was found")
	}
	var object map[string]any
	var values []any
	for _, s := range r.Failure.Run.Steps {
		for _, c := range s.Changes {
			if c.Resource == "namespaces" && (c.Before() == nil || c.Name != "default") {
				t.Errorf("change of an object that existed before the run: %+v", c)
			}
			if c.Resource != "configmaps" || c.Name != "a" {
				continue
			}
			var err error
			if object, err = c.Apply(object); err != nil {
				t.Fatal(err)
			}
			data, _ := object["data"].(map[string]any)
			values = append(values, data["k"])
			if c.Revision != s.Revision || c.UID == "" || c.Namespace != "default" {
				t.Errorf("step %d: %+v", s.N, c)
			}
		}
	}
	if len(values) != 3 || values[0] != "one" || values[1] != "two" || values[2] != nil || object != nil {
		t.Errorf("the ConfigMap was %v and is %v", values, object)
	}
}

// TestKeepNearest checks that the nearest passing run is stored next to the failure and is not one
// of the first runs of the next search.
func TestKeepNearest(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &player{t: t}
	failed := &history.Run{Header: history.Header{Format: history.Format, Test: t.Name(), Seed: 1}, Failure: &history.Failure{Oracle: "o"}}
	passed := &history.Run{Header: history.Header{Format: history.Format, Test: t.Name(), Seed: 2}}
	file, err := p.keep(failed, passed, nil)
	must(t, err)
	for name, seed := range map[string]uint64{file: 1, report.NearestFile(file): 2} {
		run, err := readRun(name)
		if err != nil || run.Seed != seed {
			t.Errorf("%s: %+v, %v", name, run, err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(p.directory(), "*"))
	// The third file has the coverage.
	if plans := p.storedPlans(t); len(plans) != 1 || plans[0].Seed != 1 || len(files) != 3 {
		t.Errorf("plans of stored runs: %+v, of %q", plans, files)
	}
}
