// Package intern lets decoded objects share the memory of their equal parts.
//
// The pods of one template differ in their names, addresses and times, and are equal in most other respects. If each of
// 100,000 decoded pods has its own copy of the same labels, tolerations and volume sources, the copies need
// gigabytes. Samples compares a new object with an earlier one of the same kind and group, and replaces equal strings, lists,
// maps and pointers by those of the earlier one. It does not change what is read from an object.
//
// Objects that share parts must not be modified in place. That holds for all objects in a cache, so only caches use this
// package. Of all types, it knows only quantities, which cache their text. Floor: internal, imports only apimachinery.
package intern
