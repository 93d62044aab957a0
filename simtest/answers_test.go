package simtest

import (
	"flag"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestCachedAnswers runs a search twice, without and with the cache of the server's answers: each
// run takes the same steps.
func TestCachedAnswers(t *testing.T) {
	test := func(w *World) {
		w.Kubelet()
		for n := range 2 {
			w.Create(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: fmt.Sprint("image:", n)}}},
			})
		}
		w.Settle()
		for _, pod := range w.View().List("pods") {
			w.Delete(pod)
		}
	}
	search := func(ask string) (runs []*history.Run) {
		must(t, flag.Set("simtest.ask", ask))
		p, err := newPlayer(t, Options{}, test)
		must(t, err)
		r, err := sim.Search(t.Context(), p, sim.Options{Seed: 3, Runs: 150, Progress: func(_ *sim.Result, out *sim.Outcome) { runs = append(runs, out.Run) }})
		must(t, err)
		if r.Failure != nil {
			t.Fatal(r.Failure.Run.Failure)
		}
		return runs
	}
	s, err := theServer()
	must(t, err)
	s.answers.forget()
	before := s.answers.hits
	asked := search("true")
	if n := s.answers.hits - before; n != 0 {
		t.Errorf("%d answers came from the cache, which is off", n)
	}
	remembered := search("false")
	requests := 0
	for _, run := range remembered {
		for i := range run.Steps {
			if run.Steps[i].Kind == history.Request && run.Steps[i].Verb != "watch" {
				requests++
			}
		}
	}
	if n := s.answers.hits - before; 2*n < requests {
		t.Errorf("only %d of %d requests were answered from the cache", n, requests)
	}
	if len(asked) != len(remembered) || len(asked) != 150 {
		t.Fatalf("%d and %d runs", len(asked), len(remembered))
	}
	for n := range asked {
		if step, diverged := history.Diverged(asked[n], remembered[n]); diverged {
			t.Fatalf("run %d with faults %q differs at step %d:\nserver %s\ncache  %s", n, asked[n].Faults, step, stepText(asked[n], step), stepText(remembered[n], step))
		}
	}
}
