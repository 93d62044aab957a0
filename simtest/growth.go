package simtest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// growingRounds is in how many of the last repetitions in a row the goroutines of one place must become more.
const growingRounds = 3

// Repeat calls play several times, at least four, and settles after each call. play should leave the objects as it found
// them: it scales up and down again, or creates and deletes. Then a controller needs no more goroutines after the last call
// than after the first ones. The run fails if the number of goroutines that one place of the code has started, and that have
// not returned, increases in each of the last three repetitions.
//
// It does not compare the memory: the record of the run and the versions of objects that the API keeps are in the same process,
// and grow.
func (w *World) Repeat(times int, play func()) {
	if times <= growingRounds || play == nil {
		w.fatal("Repeat(%d): want at least %d repetitions, and a function", times, growingRounds+1)
	}
	var rounds []map[string]int
	for range times {
		play()
		w.Settle()
		rounds = append(rounds, startedBy(goroutines(newestBubble())))
	}
	if text := growing(rounds); text != "" {
		w.mu.Lock()
		if w.runErr == nil && w.ctx.Err() == nil {
			w.runErr = &violation{verdict.GrowthOracle, text}
		}
		w.mu.Unlock()
		runtime.Goexit()
	}
}

// violation is the error of a run that violated a rule of the method that the test called.
type violation struct{ oracle, message string }

// Error implements error.
func (v *violation) Error() string { return v.message }

// startedBy counts goroutines by the place that has started them: a function, and file and line of its statement.
func startedBy(stacks []string) map[string]int {
	counts := map[string]int{}
	for _, stack := range stacks {
		lines := strings.Split(stack, "\n")
		for n := len(lines) - 2; n > 0; n-- {
			function, created := strings.CutPrefix(lines[n], "created by ")
			if !created {
				continue
			}
			function, _, _ = strings.Cut(function, " in goroutine ")
			at, _, _ := strings.Cut(strings.TrimSpace(lines[n+1]), " +0x")
			counts[function+" ("+at[strings.LastIndexByte(at, '/')+1:]+")"]++
			break
		}
	}
	return counts
}

// growing names the places whose goroutines became more in each of the last rounds; "" if there is none.
func growing(rounds []map[string]int) string {
	last := rounds[len(rounds)-growingRounds-1:]
	var texts []string
	for _, place := range slices.Sorted(maps.Keys(last[growingRounds])) {
		counts := []string{fmt.Sprint(last[0][place])}
		for n := range growingRounds {
			if last[n+1][place] <= last[n][place] {
				break
			}
			counts = append(counts, fmt.Sprint(last[n+1][place]))
		}
		if len(counts) == growingRounds+1 {
			texts = append(texts, fmt.Sprintf("%s has started %s goroutines that have not returned after the last %d of %d repetitions",
				place, strings.Join(counts, ", "), growingRounds+1, len(rounds)))
		}
	}
	return strings.Join(texts, "; ")
}
