package apiserver_test

import (
	"context"
	"runtime"
	"testing"

	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// TestStopDuringStart: Stop, or the end of the context, stops a server that is still starting, and not the
// process: upstream's hooks exit the process if they are interrupted.
func TestStopDuringStart(t *testing.T) {
	exit := klog.OsExit
	defer func() { klog.OsExit = exit }()
	klog.OsExit = func(int) {
		t.Error("the Kubernetes code ends the process")
		runtime.Goexit()
	}
	for name, end := range map[string]func(*apiserver.Server, context.CancelFunc){
		"stopped":     func(s *apiserver.Server, _ context.CancelFunc) { s.Stop() },
		"interrupted": func(_ *apiserver.Server, cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := apiserver.Start(ctx, apiserver.Options{Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}})
		if err != nil {
			t.Fatal(err)
		}
		end(s, cancel)
		<-s.Done()
		if err := s.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
