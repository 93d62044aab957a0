package console

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// notifySignals subscribes to the signals that terminate a process. One that the process was started with ignored (nohup,
// a shell's background job) stays ignored.
func notifySignals() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	return ch, func() { signal.Stop(ch) }
}

// Interruptible returns a context that ends with the first signal, or with its parent. The second signal exits the
// process at once: a user who presses Ctrl-C twice does not want to wait for a clean stop.
func (c *Console) Interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	ch, stop := c.Signals()
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-ch:
			}
			if n > 0 {
				c.Exit(ExitInterrupted)
				return
			}
			cancel()
		}
	}()
	return ctx, func() {
		stop()
		close(done)
		cancel()
	}
}
