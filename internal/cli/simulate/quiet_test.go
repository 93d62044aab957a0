package simulate

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Many warnings become a few lines and a number; while the API server does not answer, no warning is printed.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		away := false
		log := slog.New(newQuiet(slog.NewTextHandler(&out, nil), func() bool { return away })).With("engine", 1)
		for range 1000 {
			log.Warn("no")
		}
		if n := strings.Count(out.String(), "\n"); n != quietMost {
			t.Errorf("%d lines", n)
		}
		time.Sleep(quietEvery)
		away = true
		log.Warn("not now")
		away = false
		log.Warn("again")
		if got := out.String(); !strings.Contains(got, "msg=again") || !strings.Contains(got, "=995") || strings.Contains(got, "not now") {
			t.Errorf("%s", got)
		}
	})
}

func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		c := &connection{now: time.Now, say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
		gone := errors.New("connection reset")
		c.note(gone)
		if !c.away() {
			t.Error("not away")
		}
		c.note(nil) // too short for a word
		c.note(gone)
		time.Sleep(3 * time.Second)
		c.note(gone)
		c.note(gone)
		time.Sleep(4 * time.Second)
		c.note(nil)
		c.note(nil)
		if got := strings.Join(said, "|"); got != "The API server does not answer: connection reset; retrying.|The API server answers again, after 7 s." || c.away() {
			t.Error(got)
		}
	})
}
