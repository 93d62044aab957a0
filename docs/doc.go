// Package docs holds no code: its tests do what the documentation tells readers to do,
// and compare what they see with what it says.
//
// A page's files are written to a directory of their own and its commands are run
// there, so that a reader who follows the page sees what the page shows. What a page
// explains is not checked, only what it lets the reader do.
package docs
