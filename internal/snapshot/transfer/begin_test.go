package transfer

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestBegin: changes are written once all watches have been answered; a watch that is never answered delays them for a limited time, with one
// warning that names its kind.
func TestBegin(t *testing.T) {
	var warned []string
	secrets, leases := &source{}, &source{}
	secrets.GroupVersionResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases.GroupVersionResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	newRecorder := func() *recorder {
		warned = nil
		secrets.opened, leases.opened = false, false
		return &recorder{sources: []*source{secrets, leases}, saver: &saver{SaveOptions: SaveOptions{Warn: func(format string, args ...any) {
			warned = append(warned, fmt.Sprintf(format, args...))
		}}}}
	}
	r := newRecorder()
	r.setOpened(secrets)
	if r.begin(openLimit) {
		t.Error("begun before all watches were answered")
	}
	if !r.begin(openLimit+time.Millisecond) || !r.begin(openLimit+time.Second) {
		t.Error("not begun after the limit")
	}
	if want := "[the API server has not answered the watch of leases.coordination.k8s.io for 15s: changes of other kinds are recorded without waiting for it]"; fmt.Sprint(warned) != want {
		t.Errorf("%q, want %q", warned, want)
	}
	r = newRecorder()
	r.setOpened(secrets)
	r.setOpened(leases)
	if !r.begin(0) || len(warned) > 0 {
		t.Errorf("not begun, although all watches were answered; %q", warned)
	}
}
