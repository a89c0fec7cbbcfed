"""One adapter a waiter, each set up as its documentation recommends."""
