// Package html draws a report as one page: the lanes of belief, from left to right the
// user, the truth, the gap in which deliveries are under way, what each controller
// believed and asked for, and the kubelet; time goes down.
//
// The page needs nothing but itself: it opens from a disk, asks for nothing on any
// network (its own policy forbids it), reads without its script, prints, and is no
// longer than [Limit] whatever the run was. It opens at the violated invariant.
//
// It decides nothing about runs: all it shows is in report.Run and report.Picture.
//
// The floor is F3, as package report's.
package html
