// Package report shows the record of a run: to people as lanes of belief on a
// terminal ([Lanes], [WriteText]) and as one sentence on the cause of a failure
// ([Story]), to programs as JSON and JUnit XML. [Of] derives all there is to say of a
// run; [Run.Picture] lays it out for a page, which package report/html draws.
//
// Time goes down. Beside what was true (the API's revisions) stands what each
// controller believed (how far its caches had come) and what it did about it. All
// of it is derived from the steps of a history.Run, so a recorded failure reads the
// same as a fresh one.
//
// What it is not: it judges nothing, runs nothing and reads no environment; width
// and colour are the caller's choice.
//
// The floor is F3: it imports history, fault and invariant.
package report
