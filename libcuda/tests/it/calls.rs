//! Calls of every exported function with values at random: none may end the process.
