package stage

import (
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/stage/stagetest"
)

const devicesAnnotation = "rehearse-k8s.github.io/devices"

func TestGoldenNodeDevices(t *testing.T) {
	set := mustBuiltin(t, "node-fast", "node-devices")
	n := stagetest.NewNode()
	n.Annotations = map[string]string{devicesAnnotation: "gpu.example.com=2"}
	golden(t, "node-devices", life(t, set, n, 5, nil))
}

// TestInvalidDevices: an annotation that names no devices leads to an error that says what is wrong, not to a slice.
func TestInvalidDevices(t *testing.T) {
	set := mustBuiltin(t, "node-devices")
	for _, text := range []string{"", "gpu.example.com", "gpu.example.com=0", "gpu.example.com=129", "gpu.example.com=-1", "gpu.example.com=1=2", "GPU=1", "=1"} {
		n := stagetest.NewNode()
		n.Status.Phase = "Running"
		n.Annotations = map[string]string{devicesAnnotation: text}
		d := set.Decide(stagetest.Start, 1, n, Past{}, Scene{NodeReady: true})
		if !d.Chosen() {
			t.Fatalf("%q: no stage", text)
		}
		if _, err := set.Play(stagetest.Start, n, d, stagetest.Facts{}); err == nil || !strings.Contains(err.Error(), "is not DRIVER=COUNT with a count from 1 to 128") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
