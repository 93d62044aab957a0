package simtest_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// beats returns a controller that counts in a ConfigMap. period returns the time until the next write, from
// the number of writes of this instance and of all.
func beats(period func(own, all int) time.Duration) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		maps := client.CoreV1().ConfigMaps("default")
		for own := 0; ; own++ {
			all := 0
			o, err := maps.Get(ctx, "heartbeat", metav1.GetOptions{})
			if err == nil {
				all, _ = strconv.Atoi(o.Data["beats"])
				o.Data["beats"] = strconv.Itoa(all + 1)
				_, err = maps.Update(ctx, o, metav1.UpdateOptions{})
			} else {
				_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "heartbeat"}, Data: map[string]string{"beats": "0"}}, metav1.CreateOptions{})
			}
			wait := period(own, all)
			if err != nil {
				wait = time.Second
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// TestHeartbeat checks that a controller with a heartbeat passes: its periodic writes prevent neither Settle nor
// quiescence, and the field that they change is not compared.
func TestHeartbeat(t *testing.T) {
	for _, period := range []time.Duration{2 * time.Second, 20 * time.Second} {
		r := simtest.Explore(t, simtest.Seeds(30), func(w *simtest.World) {
			w.Controller("agent", beats(func(int, int) time.Duration { return period }))
			w.Settle()
		})
		if r.Failure != nil {
			t.Errorf("%s: %+v", period, r.Failure.Run.Failure)
		}
		if r.Systematic == 0 {
			t.Errorf("%s: no fault was tried", period)
		}
	}
}

// TestFasterHeartbeat checks that writes that come more often than without faults are a livelock.
func TestFasterHeartbeat(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(60), func(w *simtest.World) {
		w.Faults(fault.Crash("agent"))
		w.Controller("agent", beats(func(own, all int) time.Duration {
			if own < all { // after a restart
				return 2 * time.Second
			}
			return 20 * time.Second
		}))
	})
	if r.Failure == nil || r.Failure.Run.Failure.Oracle != verdict.QuiescenceOracle {
		t.Errorf("got %+v", r.Failure)
	}
}

// TestUnevenWrites checks that writes at unequal intervals are a livelock, also without faults.
func TestUnevenWrites(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(5), func(w *simtest.World) {
		w.Controller("bad", beats(func(own, _ int) time.Duration { return time.Duration(1+own%5) * time.Second }))
		w.Settle()
	})
	if r.Failure == nil {
		t.Fatal("no failure was found")
	}
	if f := r.Failure.Run.Failure; f.Oracle != verdict.QuiescenceOracle || !strings.Contains(f.Message, "bad sent") {
		t.Errorf("violated: %s: %s", f.Oracle, f.Message)
	}
}
