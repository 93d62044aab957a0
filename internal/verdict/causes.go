package verdict

import "github.com/rehearse-k8s/rehearse/history"

// Causes returns the steps without which a step would not have happened, including the step itself.
func Causes(run *history.Run, step int) map[int]bool {
	found := map[int]bool{}
	if step < 0 || step >= len(run.Steps) {
		return found
	}
	for open := []int{step}; len(open) > 0; {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		if n < 0 || n >= len(run.Steps) || found[n] {
			continue
		}
		found[n] = true
		open = append(open, run.Steps[n].Causes...)
	}
	return found
}
