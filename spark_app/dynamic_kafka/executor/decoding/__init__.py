"""Values decoded into typed columns, on executors: the decoders behind one interface, and the rows made with them."""
