package stage

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nativeByStage are the stages of the fast files whose template also exists as
// Go code. The YAML is what the stage means; the code says the same faster, and
// a test compares the two on many objects.
var nativeByStage = map[string]map[string]nativePatch{
	"node-fast": {"node-initialize": initializeNode},
	"pod-fast": {
		"pod-ready":       onPod(readyPod),
		"pod-complete":    onPod(completePod),
		"pod-ready-again": onPod(readyAgainPod),
		"pod-gate-closed": onPod(gateClosedPod),
		"pod-terminate":   onPod(terminatePod),
	},
}

// nativeOf is the code of a stage of a built-in file, if there is one.
func nativeOf(file string, s *Stage) nativePatch {
	if s.Spec.Next == nil {
		return nil
	}
	if step := kubeletStepOf(s.Spec.Next.StatusTemplate); step != nil {
		return step
	}
	return nativeByStage[file][s.Name]
}

// builtinPatches maps the text of built-in templates to their Go code. The code
// stands in only for exactly that text: a stage that says anything else, even
// under the same name, is rendered.
func builtinPatches() map[string]nativePatch {
	out := map[string]nativePatch{}
	for name, natives := range nativeByStage {
		data, err := BuiltinFile(name)
		if err != nil {
			continue
		}
		stages, _ := decode(name, data)
		for i := range stages {
			if native, next := natives[stages[i].stage.Name], stages[i].stage.Spec.Next; native != nil && next != nil {
				out[next.StatusTemplate] = native
			}
		}
	}
	return out
}

func onPod(f func(p *corev1.Pod, m moment) error) nativePatch {
	return func(o Object, m moment) error { return f(o.(*corev1.Pod), m) }
}

// containerID is stable over restarts of the engine and different for every
// container.
func containerID(uid types.UID, container string) string {
	const scheme = "rehearse://"
	sum := sha256.Sum256([]byte(string(uid) + "/" + container))
	var out [len(scheme) + 2*sha256.Size]byte
	copy(out[:], scheme)
	hex.Encode(out[len(scheme):], sum[:])
	return string(out[:])
}
