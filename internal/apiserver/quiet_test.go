package apiserver

import (
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// TestQuiet: the logs of Kubernetes code are discarded, but not the reason why that code terminates the process.
func TestQuiet(t *testing.T) {
	exit := klog.OsExit
	defer func() {
		klog.OsExit = exit
		klog.SetLogger(logr.Discard())
	}()
	var stderr strings.Builder
	quiet(&stderr, func(int) { runtime.Goexit() })
	klog.Infof("not %s", "interesting")
	klog.ErrorS(nil, "Failed")
	done := make(chan struct{})
	go func() {
		defer close(done)
		klog.Fatalf("PostStartHook %q failed: timeout", "rbac/bootstrap-roles")
	}()
	<-done
	got := stderr.String()
	first, stack, _ := strings.Cut(got, "\n")
	if !strings.HasSuffix(first, `exit code 255: PostStartHook "rbac/bootstrap-roles" failed: timeout`) || !strings.Contains(stack, "TestQuiet") || strings.Contains(got, "interesting") {
		t.Errorf("%q", got)
	}
}
