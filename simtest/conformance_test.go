package simtest_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/faults"
)

// TestFaultConformance checks the table of package test/faults, that is what a client observes of
// each kind of fault, in process and in virtual time.
func TestFaultConformance(t *testing.T) {
	for _, row := range faults.Table {
		t.Run(row.Text, func(t *testing.T) {
			c := &faults.Client{Namespace: "default"}
			var objects []metav1.Object
			out := simtest.Play(t, simtest.Options{}, sim.Plan{Faults: row.Faults(t, c.Namespace)}, func(w *simtest.World) {
				a := faults.ConfigMap("a")
				w.Create(a)
				w.Controller(faults.Actor, c.Run)
				w.Advance(500 * time.Millisecond)
				a.ResourceVersion, a.UID = "", "" // another user may have changed it
				a.Data = map[string]string{"n": "1"}
				w.Update(a)
				w.Create(faults.ConfigMap("b"))
				c.Note(faults.UserWrote)
				w.Advance(time.Minute)
				for _, o := range w.View().List("configmaps") {
					objects = append(objects, o)
				}
				row.Check(t, c, objects)
			})
			if out.Run.Failure != nil {
				t.Error(out.Run.Failure)
			}
		})
	}
}
