"""What Lanternwheel adds to django-machina: bike setups, sureness, the saddlebag, the gate and sealed threads."""
