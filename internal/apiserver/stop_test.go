package apiserver_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

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

// TestStopWithoutEtcd: a server whose pre-shutdown hooks wait forever, because etcd does not answer, is left after StopTimeout. A server
// that stops is not waited for longer, and the error of one that fails by itself is kept.
func TestStopWithoutEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		for name, c := range map[string]struct {
			run  func(context.Context) error
			took time.Duration
		}{
			"stops": {func(ctx context.Context) error { <-ctx.Done(); <-time.After(time.Second); return ctx.Err() }, time.Second},
			"hangs": {func(context.Context) error { <-never; return nil }, apiserver.StopTimeout},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			start := time.Now()
			if err := apiserver.RunUntilStopped(ctx, c.run); err != nil || time.Since(start) != c.took {
				t.Errorf("%s: %v after %s, want nil after %s", name, err, time.Since(start), c.took)
			}
		}
		failure := errors.New("the listener is closed")
		if err := apiserver.RunUntilStopped(t.Context(), func(context.Context) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("a server that fails: %v", err)
		}
	})
}
