"""What files from strangers may hold: nothing that runs code, never ends or fills the memory."""
