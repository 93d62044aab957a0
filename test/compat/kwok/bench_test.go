package kwok

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"github.com/rehearse-k8s/rehearse/stage"
)

// inputs are the pods that the benchmarks decide on, from KWOK's own tests: one for the fast stages, one for
// the general ones.
var inputs = map[string]string{
	"fast":    "pod/fast/testdata/pod-pending.input.yaml",
	"general": "pod/general/testdata/pod-ready.input.yaml",
}

func benchmark(b *testing.B, run func(*testing.B, both, stage.Object)) {
	root, err := shipped()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"fast", "general"} {
		file := filepath.Join(root, inputs[name])
		data, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		o, _, err := read(data)
		if err != nil {
			b.Fatal(err)
		}
		set, err := load(filepath.Dir(filepath.Dir(file)))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			run(b, set, o)
		})
	}
}

func decideKWOK(b *testing.B, lc lifecycle.Lifecycle, o stage.Object) *lifecycle.Stage {
	e := event(o)
	s, err := lc.Match(context.Background(), e)
	if err != nil || s == nil {
		b.Fatal(s, err)
	}
	if _, _, err := s.Delay(context.Background(), e, now); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkDecideKWOK measures one decision as KWOK's controller makes it for an event: the stage and its
// delay.
func BenchmarkDecideKWOK(b *testing.B) {
	benchmark(b, func(b *testing.B, set both, o stage.Object) {
		for b.Loop() {
			decideKWOK(b, set.kwok[stage.KindPod], o)
		}
	})
}

// BenchmarkDecideOurs measures the same decision by package stage.
func BenchmarkDecideOurs(b *testing.B) {
	benchmark(b, func(b *testing.B, set both, o stage.Object) {
		for b.Loop() {
			if d := set.ours.Decide(now, 1, o, stage.Past{}, stage.Scene{NodeReady: true}); !d.Chosen() {
				b.Fatal("no stage is chosen")
			}
		}
	})
}

// BenchmarkPlayKWOK measures a decision, and the stage's patch rendered and applied to the object, as KWOK
// does before it sends the patch.
func BenchmarkPlayKWOK(b *testing.B) {
	benchmark(b, func(b *testing.B, set both, o stage.Object) {
		templates := renderer(o.GetName())
		for b.Loop() {
			s := decideKWOK(b, set.kwok[stage.KindPod], o)
			if _, err := kwokDoes(templates, s, o, stage.KindPod); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPlayOurs measures the same by package stage, up to the bytes that are sent.
func BenchmarkPlayOurs(b *testing.B) { benchmark(b, playOurs) }

func playOurs(b *testing.B, set both, o stage.Object) {
	player := &stage.Player{} // each worker of the engine has one
	for b.Loop() {
		d := set.ours.Decide(now, 1, o, stage.Past{}, stage.Scene{NodeReady: true})
		effects, err := player.Play(set.ours, now, o, d, facts{})
		if err != nil || effects.Empty() {
			b.Fatal(effects, err)
		}
		if _, err := effects.Object.(*corev1.Pod).Marshal(); err != nil {
			b.Fatal(err)
		}
	}
}
